#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainer/data/csv.h"

namespace {

// Every field quoted: what is read back must be the same.
std::string written(const muster::data::CsvTable& table) {
  std::string text;
  const auto row = [&text](auto begin, auto end) {
    for (auto field = begin; field != end; ++field) {
      text += field == begin ? "\"" : ",\"";
      for (const char c : *field) text += c == '"' ? "\"\"" : std::string(1, c);
      text += '"';
    }
    text += '\n';
  };
  const auto width = static_cast<std::ptrdiff_t>(table.header.size());
  row(table.header.begin(), table.header.end());
  for (auto at = table.cells.begin(); at != table.cells.end(); at += width) row(at, at + width);
  return text;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = muster::data::parse_csv(text, "fuzz");
  if (!table.ok()) {
    require(table.error().message.starts_with("fuzz"));
    return 0;
  }
  require(table->cells.size() == table->rows() * table->header.size());
  for (std::size_t r = 1; r < table->rows(); ++r) require(table->lines[r - 1] < table->lines[r]);
  const auto again = muster::data::parse_csv(written(*table), "fuzz");
  require(again.ok() && again->header == table->header && again->cells == table->cells);
  return 0;
}
