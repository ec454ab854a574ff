#include "trainer/data/csv.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace muster::data {
namespace {

Error broken(const std::string& source, std::int64_t line, const std::string& what) {
  return {Code::invalid_data, source + ":" + std::to_string(line) + ": " + what};
}

// One record after the other.
class Reader {
 public:
  Reader(std::string_view text, const std::string& source) : text_(text), source_(source) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // byte order mark
  }
  bool at_end() const { return at_ >= text_.size(); }
  std::int64_t line() const { return line_; }

  // Fields of the record at the cursor; an empty line gives none.
  Status record(std::vector<std::string>& fields) {
    fields.clear();
    if (end_of_line()) return {};
    while (true) {
      fields.emplace_back();
      MUSTER_CHECK_OK(field(fields.back()));
      if (at_end() || end_of_line()) return {};
      ++at_;  // the comma
    }
  }

 private:
  // Lines end with LF, CRLF, or a CR alone, as in the files of old Macs.
  bool end_of_line() {
    if (at_end()) return true;
    if (text_[at_] != '\n' && text_[at_] != '\r') return false;
    count_line();
    ++at_;
    return true;
  }

  // Counts the line that ends at the cursor; the CR of a CRLF is passed over.
  void count_line() {
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    ++line_;
  }

  Status field(std::string& out) {
    if (!at_end() && text_[at_] == '"') return quoted(out);
    for (; !at_end() && !ends_field(text_[at_]); ++at_) {
      if (text_[at_] == '"')
        return broken(
            source_, line_,
            "a quote inside an unquoted field; quote the whole field and double the quotes in it");
      if (text_[at_] == '\0') return zero_byte();
      out += text_[at_];
    }
    return {};
  }

  Status quoted(std::string& out) {
    const auto opened = line_;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_end() || text_[at_] != '"') return after_quote();
      }
      if (text_[at_] == '\0') return zero_byte();
      const auto begin = at_;
      if (text_[at_] == '\n' || text_[at_] == '\r') count_line();
      out += text_.substr(begin, at_ + 1 - begin);
    }
    return broken(source_, opened, "a quoted field is never closed; add the closing quote");
  }

  Status after_quote() const {
    if (at_end() || ends_field(text_[at_])) return {};
    return broken(source_, line_,
                  "text after a closing quote; double the quotes inside of a quoted field");
  }

  Error zero_byte() const {
    return broken(source_, line_, "a zero byte; this is not a text file in UTF-8");
  }

  static bool ends_field(char c) { return c == ',' || c == '\n' || c == '\r'; }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

Status check_header(const std::vector<std::string>& header, const std::string& source,
                    std::int64_t line) {
  for (auto it = header.begin(); it != header.end(); ++it) {
    if (it->empty()) {
      return broken(source, line,
                    "column " + std::to_string(it - header.begin() + 1) +
                        " of the header has no name; name it, or remove the column");
    }
    if (std::find(header.begin(), it, *it) != it) {
      return broken(source, line, "the column '" + *it + "' stands twice in the header");
    }
  }
  return {};
}

// Names and categories go into JSON, which is UTF-8.
bool is_utf8(const std::string& text) {
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), ascii)) return true;
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

Status check_text(const std::vector<std::string>& fields, const std::string& source,
                  std::int64_t line) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (is_utf8(fields[f])) continue;
    return broken(source, line,
                  "field " + std::to_string(f + 1) + " is not UTF-8; save the file as UTF-8");
  }
  return {};
}

}  // namespace

Result<CsvTable> parse_csv(std::string_view text, const std::string& source) {
  CsvTable table;
  Reader reader(text, source);
  std::vector<std::string> fields;
  while (!reader.at_end()) {
    const auto line = reader.line();
    MUSTER_CHECK_OK(reader.record(fields));
    if (fields.empty()) continue;
    MUSTER_CHECK_OK(check_text(fields, source, line));
    if (table.header.empty()) {
      table.header = fields;
      MUSTER_CHECK_OK(check_header(table.header, source, line));
      continue;
    }
    if (fields.size() != table.header.size()) {
      return broken(source, line,
                    "the row has " + std::to_string(fields.size()) + " fields, the header has " +
                        std::to_string(table.header.size()) + "; correct or remove the row");
    }
    table.lines.push_back(line);
    for (auto& f : fields) table.cells.push_back(std::move(f));
  }
  if (table.rows() == 0) {
    return Error{Code::invalid_data, source + " has no rows below its header"};
  }
  return table;
}

}  // namespace muster::data
