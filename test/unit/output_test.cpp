// Output of programs: files are complete, and lost standard output is always reported.
#include "lib/base/output.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/error.hpp"
#include "test/support/scratch.hpp"

using namespace gravel::detail;

namespace {

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

size_t files_in(const scratch& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder.directory), std::filesystem::directory_iterator()));
}

/// `ulimit -f`, while it lives.
struct size_limit {
  rlimit before;
  explicit size_limit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit now{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~size_limit() { setrlimit(RLIMIT_FSIZE, &before); }
};

/// The exit status of a process whose standard output is `file`, and what it says on stderr.
struct ended {
  int status = -1;
  std::string said;
};
template <class F>
ended run_with_output(const std::string& file, F action) {
  std::fflush(nullptr);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    if (!std::freopen(file.c_str(), "w", stdout)) _exit(99);
    check_output_at_exit("writer");
    action();
    std::exit(0);
  }
  close(ends[1]);
  ended result;
  char buffer[256];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
    result.said.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return result;
}

}  // namespace

TEST_CASE("a file is written as a whole, with the permissions of the old one") {
  const scratch folder;
  const std::string path = folder.path("out.json");
  write_file(path, "one\n");
  CHECK(text_of_file(path) == "one\n");
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  write_file(path, "two\n");
  CHECK(text_of_file(path) == "two\n");
  struct stat now {};
  REQUIRE(stat(path.c_str(), &now) == 0);
  CHECK((now.st_mode & 07777) == 0640);
  CHECK(files_in(folder) == 1);
}

TEST_CASE("until a file is complete the old one stays") {
  const scratch folder;
  const std::string path = folder.write("old", "out.csv");
  {
    output_file file(path);
    file.write(std::string(3 << 20, 'x'));
    CHECK(text_of_file(path) == "old");
  }
  CHECK(text_of_file(path) == "old");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a link stays a link, and what it names is replaced") {
  const scratch folder;
  const std::string path = folder.write("old", "real"), link = folder.path("link");
  std::filesystem::create_symlink("real", link);
  write_file(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(text_of_file(path) == "new");
}

TEST_CASE("a full disk is an error that names the file and the reason") {
  const scratch folder;
  CHECK(text_of_error([] { write_file("/dev/full", "text"); }) == "/dev/full: No space left on device");
  std::filesystem::create_symlink("/dev/full", folder.path("link"));
  CHECK(text_of_error([&] { write_file(folder.path("link"), "text"); }) ==
        folder.path("link") + ": No space left on device");
  CHECK(text_of_error([&] { write_file(folder.path("absent/x"), "text"); }) ==
        folder.path("absent/x") + ": No such file or directory");
  CHECK(text_of_error([&] { write_file(folder.directory, "text"); }) == folder.directory + ": Is a directory");
  write_file("/dev/null", "text");
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("a limit of the size of files is an error, not a signal, and the old file stays") {
  const scratch folder;
  const std::string path = folder.write("old", "out.json");
  std::string said;
  {
    const size_limit limit(4096);
    said = text_of_error([&] { write_file(path, std::string(10000, 'x')); });
  }
  CHECK(said == path + ": File too large");
  CHECK(text_of_file(path) == "old");
  CHECK(files_in(folder) == 1);
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGXFSZ) == 0);
}

TEST_CASE("lost standard output ends a process with status 1 and the reason") {
  const auto lines = [](int count) {
    return [=] {
      for (int i = 0; i < count; ++i) std::printf("line %d\n", i);
    };
  };
  const ended short_text = run_with_output("/dev/full", lines(1));
  CHECK(short_text.status == 1);
  CHECK(short_text.said == "writer: standard output: No space left on device\n");
  // The buffer was written out long before the end, and nobody looked.
  const ended long_text = run_with_output("/dev/full", lines(10000));
  CHECK(long_text.status == 1);
  CHECK(long_text.said == "writer: standard output: No space left on device\n");
  const scratch folder;
  const ended limited = run_with_output(folder.path("out"), [&] {
    const rlimit small{1024, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &small);
    lines(10000)();
  });
  CHECK(limited.status == 1);
  CHECK(limited.said == "writer: standard output: File too large\n");
  const ended fine = run_with_output("/dev/null", lines(10000));
  CHECK(fine.status == 0);
  CHECK(fine.said.empty());
}
