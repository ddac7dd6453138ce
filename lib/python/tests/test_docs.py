"""The programs of docs/python.md run, and print what the page says. Skipped where the page is not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from conftest import HERE, is_fine, run_job

from gravel._kernel_cache import why_no_compiler

PAGE = HERE.parents[2] / "docs" / "python.md"
PROGRAMS = (
    re.findall(r"^```python\n# file: (\w+\.py)\n(.*?)^```", PAGE.read_text(), re.M | re.S) if PAGE.is_file() else []
)
if not PROGRAMS:
    pytest.skip("docs/python.md is not here", allow_module_level=True)


def test_mistakes_have_tests() -> None:
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| `([^`]+)::([^`]+)` \|$", PAGE.read_text(), re.M)
    assert len(rows) >= 10
    assert [] == [name for file, name in rows if f"def {name}(" not in (HERE / file).read_text()]


@pytest.mark.parametrize(("name", "text"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
@pytest.mark.parametrize(("n_pes", "nodes"), [(1, 1), (3, 1), (4, 2)])
def test_program(tmp_path: Path, name: str, text: str, n_pes: int, nodes: int) -> None:
    if "import torch" in text and not importlib.util.find_spec("torch"):
        pytest.skip("PyTorch is not installed")
    if "gr.Kernels(" in text and (why := why_no_compiler()):
        pytest.skip(why)
    (tmp_path / name).write_text(text)
    done = run_job(n_pes, str(tmp_path / name), nodes=nodes)
    is_fine(done)
    assert done.stdout and not done.stderr
