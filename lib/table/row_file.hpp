// Reads the rows of a table from files.
//
// Problem. A table of some hundred GB must come from files in a minute, at all PEs at once.
// Solution. Each PE reads its own rows, by large reads of several threads: straight to their places if host threads
// may write there, else through pinned memory. Of a table that is dealt one by one, a PE reads short rows with those of
// other PEs between them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lib/table/row_dealing.hpp"
#include "lib/table/tensor_file.hpp"

namespace gravel::detail {

/// What files with rows contain.
struct row_format {
  std::string tensor =
      {};                  ///< files of safetensors: the name of a tensor of two dimensions, rows and the elements of a
                           ///< row; empty: the files have nothing but rows
  std::string dtype = {};  ///< type of its elements, as in the file: "F32", "BF16", ...; empty: any of the right size
};

/// Rows in a file, one behind the other.
struct rows_in_file {
  open_file file;
  uint64_t begin;  ///< byte of the first row
  uint64_t rows;
};

/// Finds a table's rows in files, which have them in this order. Throws gravel::error if they are not all there, or are
/// not like those of the table.
std::vector<rows_in_file> find_rows(const std::vector<std::string>& files, const row_format& format, uint64_t count,
                                    uint64_t row_bytes);
/// Reads the rows of a PE to `local`, by up to `threads` threads. `is_of_host`: host threads may write there. Throws
/// gravel::error.
void read_rows(const std::vector<rows_in_file>& files, const row_dealing& dealing, uint32_t pe, uint64_t row_bytes,
               char* local, bool is_of_host, unsigned threads);

}  // namespace gravel::detail
