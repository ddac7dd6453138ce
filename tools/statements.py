"""Refuses what no formatter does but what is hard to read. tools/format --check calls it.

    long_lines(text) yields (line, message) for each line of more than 120 columns, except a URL that stands alone
    faults_in(text)  yields them, too, and (line, message) for each of these in a C++ or CUDA source:

    - a comma statement:                 a = 1, b = 2;       also behind if, for, while,
                                                             and as (a, b) within an expression
    - a return of a comma expression:    return f(), x;
    - a void cast in a comma list:       (void(f(xs)), ...);     the fold (f(xs), ...) alone is allowed
    - a conditional operator in an arm or the condition of another:    a ? b : c ? d : e

A small tokenizer removes comments and strings and matches brackets. A statement with a comma outside all brackets,
which is no declaration, is a comma statement. Macro bodies are checked as a source of their own."""

import re
from dataclasses import dataclass, field

COLUMNS = 120
# Marks of a comment or of a string may stand around it.
LONE_URL = re.compile(r"""[\s#/*"']*https?://\S+""")

TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
      | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|\b(?:u8|[uUL])?'(?:\\.|[^'\\\n])+'|'(?:\\.|[^'\\\n])+')
      | (?P<space>(?:\s|\\\n)+)
      | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark_of_code><<<|>>>(?=\s*\()|::|->\*?|\+\+|--|<=>|<<=|[-+*/%&|^!=]=|\.\.\.|&&|\|\||[^\w\s])""",
    re.X | re.S,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|/\*.*?\*/|[^\n])*", re.M | re.S)
DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+\w+(?:\([^)]*\))?")
CLOSING = {"(": ")", "[": "]", "{": "}", "<<<": ">>>"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<="}
HEADS = {"if", "for", "while", "switch"}
# Words that begin what is no expression statement.
DECLARATIONS = {"using", "typedef", "template", "struct", "class", "union", "enum", "namespace", "friend", "extern",
                "static_assert", "public", "private", "protected", "concept", "asm", "goto", "auto", "const",
                "constexpr", "constinit", "static", "inline", "volatile", "mutable", "register", "thread_local",
                "unsigned", "signed", "int", "long", "short", "char", "bool", "float", "double", "typename", "virtual",
                "explicit"}
RETURNS = {"return", "co_return", "co_yield", "throw"}
# Tokens that may stand between a lambda's captures and its body, beside a parenthesis.
OF_A_LAMBDA = {"mutable", "noexcept", "constexpr", "->", "::", "*", "&", "__device__", "__host__"}


@dataclass
class Token:
    """A word or a mark, or a bracket with all that lies in it."""

    text: str
    line: int
    inside: list = field(default_factory=list)
    is_code: bool = False  # braces around statements or members, not around a list

    @property
    def is_word(self):
        return self.text[0].isalpha() or self.text[0] == "_"


def tokens_of(text, first_line=1):
    """The tokens of a text without comments. Strings and characters are one token each."""
    line = first_line
    for found in TOKEN.finditer(text):
        kind = found.lastgroup if found.lastgroup != "mark" else "raw"
        if kind in ("raw", "text"):
            yield Token('""', line)
        elif kind not in ("comment", "space"):
            yield Token(found[0], line)
        line += found[0].count("\n")


def is_code(group):
    """Whether braces hold statements or members: a list has no semicolon and begins with no statement's word."""
    words = HEADS | {"do", "try", "case", "default", "template", "struct", "class", "union", "enum", "namespace"}
    return any(token.text == ";" for token in group) or bool(group) and (
        group[0].text in words or group[0].text == "{" and group[0].is_code)


def tree_of(tokens):
    """Tokens with brackets matched. A closing bracket too many is dropped, a missing one is added at the end."""
    root = []
    open_groups = [(root, "", None)]
    for token in tokens:
        if token.text in CLOSING:
            open_groups[-1][0].append(token)
            open_groups.append((token.inside, CLOSING[token.text], token))
        elif token.text == ">>>" and open_groups[-1][1] != ">>>":  # ends three lists of template arguments
            open_groups[-1][0].extend(Token(">", token.line) for _ in range(3))
        elif token.text in CLOSING.values():
            if any(closing == token.text for _, closing, _ in open_groups):
                while True:
                    _, closing, group = open_groups.pop()
                    group.is_code = group.text == "{" and is_code(group.inside)
                    if closing == token.text:
                        break
        else:
            open_groups[-1][0].append(token)
    for _, _, group in reversed(open_groups[1:]):
        group.is_code = group.text == "{" and is_code(group.inside)
    return root


def after_angles(tokens, at):
    """Where the template arguments that open at `at` have ended; `at` itself if this `<` compares."""
    depth = 0
    for position in range(at, len(tokens)):
        text = tokens[position].text
        if text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return position + 1
        elif text in (";", "||", "?", "<<") or text in ASSIGNMENTS or tokens[position].is_code:
            break
    return at


def without_angles(tokens):
    """The tokens without template arguments."""
    kept, at = [], 0
    while at < len(tokens):
        if tokens[at].text == "<" and at and tokens[at - 1].is_word:
            end = after_angles(tokens, at)
            if end > at:
                at = end
                continue
        kept.append(tokens[at])
        at += 1
    return kept


def is_lambda_body(tokens, at):
    """Whether the braces at `at` are the body of a lambda: captures, then perhaps parameters and what follows them."""
    back = at - 1
    while back >= 0 and (tokens[back].text in OF_A_LAMBDA or tokens[back].is_word or tokens[back].text in "<>"):
        back -= 1
    if back >= 0 and tokens[back].text == "(":
        back -= 1
        if back >= 0 and tokens[back].text == ">":  # template parameters
            while back >= 0 and tokens[back].text != "[":
                back -= 1
        while back >= 0 and tokens[back].text in ("__device__", "__host__", "__forceinline__"):
            back -= 1
    return back >= 0 and tokens[back].text == "["


def split_at(tokens, text):
    """The runs of tokens between the marks `text`."""
    runs = [[]]
    for token in tokens:
        if token.text == text:
            runs.append([])
        else:
            runs[-1].append(token)
    return runs


def statements_in(tokens):
    """The statements of a block that end with a semicolon, without what leads them (if, for, labels, attributes)."""
    statement = []
    for at, token in enumerate(tokens):
        if token.text == ";":
            yield statement
            statement = []
        elif token.text == ":" and is_label(statement):
            statement = []
        elif token.text in ("else", "do", "try"):
            statement = []
        elif token.text in HEADS | RETURNS:
            statement = [token]  # perhaps behind a macro, such as GRAVEL_UNROLL
        elif token.text == "[" and not statement and len(token.inside) > 0 and token.inside[0].text == "[":
            pass  # an attribute
        elif token.text == "(" and statement and statement[0].text in HEADS:
            if all(before.text in HEADS or before.text == "constexpr" for before in statement):
                statement = []
            else:
                statement.append(token)
        elif token.text == "{" and ends_with_braces(tokens, at, statement):
            statement = []
        else:
            statement.append(token)


def is_label(statement):
    """Whether a colon behind these tokens ends a label."""
    return len(statement) == 1 and statement[0].is_word or bool(statement) and statement[0].text == "case"


def ends_with_braces(tokens, at, statement):
    """Whether the braces at `at` end the statement that they belong to: a block, a function, no list and no lambda."""
    if not statement:
        return True
    if statement[0].text in ("struct", "class", "union", "enum"):
        return False  # up to its semicolon
    if tokens[at].is_code:
        return not is_lambda_body(tokens, at)
    before = statement[-1].text
    is_function = before in ("(", "{", "const", "override", "final", "noexcept")
    return not tokens[at].inside and is_function and not is_lambda_body(tokens, at)


def is_declaration(statement):
    """Whether a statement with a comma declares: a type, then a name."""
    tokens = without_angles(statement)
    if tokens[0].text in DECLARATIONS:
        return True
    at = 0
    while at < len(tokens):
        if tokens[at].text in ("decltype", "alignas", "__attribute__", "__launch_bounds__") and at + 1 < len(tokens):
            at += 2
            continue
        if tokens[at].text == "::" or at and tokens[at - 1].text == "::" and tokens[at].is_word:
            at += 1
            continue
        if at == 0 and tokens[at].is_word:
            at += 1
            continue
        break
    if at == 0:
        return False  # no type
    while at < len(tokens) and tokens[at].text in ("*", "&", "&&", "const", "..."):
        at += 1
    return at < len(tokens) and tokens[at].is_word


def check_statement(statement):
    """Yields the faults of one statement, outside its brackets."""
    if not statement:
        return
    plain = without_angles(statement)
    if not any(token.text == "," for token in plain):
        return
    if statement[0].text in RETURNS:
        yield statement[0].line, f"{statement[0].text} of a comma expression"
    elif not is_declaration(statement):
        yield statement[0].line, "comma statement"


def begins_with_void(tokens):
    """Whether a part of a comma list casts to void."""
    if not tokens:
        return False
    first = tokens[0]
    return first.text == "void" and len(tokens) > 1 or first.text == "(" and [t.text for t in first.inside] == ["void"]


def check_parenthesis(group, before):
    """Yields a comma operator within a parenthesis that holds one expression."""
    *initializers, expression = split_at(group.inside, ";")
    for initializer in initializers:
        yield from check_statement(initializer)
    parts = split_at(without_angles(expression), ",")
    if len(parts) < 2 or initializers and before == "for":
        return
    if any(begins_with_void(part) for part in parts):
        yield group.line, "void cast in a comma list"
        return
    if any([token.text for token in part] == ["..."] for part in (parts[0], parts[-1])) and len(parts) == 2:
        return  # a fold
    yield group.line, "comma operator"


def is_grouping(tokens, at):
    """Whether the parenthesis at `at` holds one expression, rather than arguments, parameters or types."""
    if at == 0:
        return True
    before = tokens[at - 1]
    if before.text in {"if", "while", "switch"} | RETURNS:
        return True
    if any(token.text == "operator" for token in tokens[max(at - 3, 0) : at]):
        return False
    return not before.is_word and before.text not in ("(", "[", "{", "<<<", ">", '""', "...")


def conditionals(tokens):
    """The lines of the conditional operators in tokens and in their brackets, statements in braces apart."""
    lines = []
    for token in tokens:
        if token.text == "?":
            lines.append(token.line)
        elif token.inside and not token.is_code:
            lines.extend(conditionals(token.inside))
    return lines


def check_conditionals(tokens):
    """Yields the conditional operators within another one."""
    segment, pending = [], 0
    for token in [*tokens, Token(";", 0)]:
        ends = token.text in (",", ";", *ASSIGNMENTS, *RETURNS, "case") or token.is_code and not segment
        if token.text == "?":
            pending += 1
        elif token.text == ":":
            ends = pending == 0
            pending -= not ends
        if not ends:
            segment.append(token)
            continue
        if any(part.text == "?" for part in segment) and len(lines := conditionals(segment)) > 1:
            yield lines[0], "conditional operator within another"
        segment, pending = [], 0


def check_group(tokens, in_code):
    """Yields all faults of a block, of a list or of the inside of a bracket."""
    yield from check_conditionals(tokens)
    if in_code:
        for statement in statements_in(tokens):
            yield from check_statement(statement)
    for at, token in enumerate(tokens):
        if at and tokens[at - 1].text == "__attribute__":
            continue
        if token.text == "(" and is_grouping(tokens, at):
            yield from check_parenthesis(token, tokens[at - 1].text if at else "")
        if token.inside:
            yield from check_group(token.inside, token.is_code)


def long_lines(text):
    """Yields (line, message) for each line that is too long."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS and not LONE_URL.fullmatch(line):
            yield number, f"{len(line)} columns, {COLUMNS} allowed"


def faults_in(text):
    """The (line, message) of each fault of a C++ or CUDA source, in the order of lines."""
    faults = set(long_lines(text))

    def cut(found):
        """Checks the body of a macro, and leaves the directive's line breaks alone."""
        if define := DEFINE.match(found[0]):
            line = text.count("\n", 0, found.start()) + 1 + found[0].count("\n", 0, define.end())
            faults.update(check_group(tree_of(tokens_of(found[0][define.end():], line)), True))
        return "\n" * found[0].count("\n")

    faults.update(check_group(tree_of(tokens_of(DIRECTIVE.sub(cut, text))), True))
    return sorted(faults)
