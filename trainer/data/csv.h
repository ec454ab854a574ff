// CSV files (RFC 4180) as tables of text, every broken row named by its line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace muster::data {

struct CsvTable {
  std::vector<std::string> header;
  std::vector<std::string> cells;   // row-major: rows x header.size()
  std::vector<std::int64_t> lines;  // of each row, from 1
  std::size_t rows() const { return lines.size(); }
  const std::string& at(std::size_t row, std::size_t column) const {
    return cells[row * header.size() + column];
  }
};

// The first record is the header. Lines end with LF, CRLF or CR; empty lines are passed over. The
// text is UTF-8, with or without a byte order mark.
// Errors: Code::invalid_data with `source`, line, and what is wrong.
Result<CsvTable> parse_csv(std::string_view text, const std::string& source);

}  // namespace muster::data
