// Files that a test case writes.
#pragma once
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "test/support/catch.hpp"

namespace gravel::detail {

/// A directory of its own, removed with what is in it.
struct scratch {
  std::string directory;
  scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "graph_test.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    directory = name;
  }
  ~scratch() { std::filesystem::remove_all(directory); }
  std::string path(const std::string& name) const { return directory + "/" + name; }
  std::string write(const std::string& text, const std::string& name = "graph") const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string write_gzip(const std::string& text, const std::string& name = "graph.gz") const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
    REQUIRE(gzclose(file) == Z_OK);
    return path(name);
  }
};

}  // namespace gravel::detail
