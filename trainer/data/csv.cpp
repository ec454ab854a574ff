#include "trainer/data/csv.h"

#include <algorithm>

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
  bool end_of_line() {
    if (at_end()) return true;
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    if (text_[at_] != '\n') return false;
    ++at_;
    ++line_;
    return true;
  }

  Status field(std::string& out) {
    if (!at_end() && text_[at_] == '"') return quoted(out);
    while (!at_end() && text_[at_] != ',' && text_[at_] != '\n') {
      const char c = text_[at_];
      if (c == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') break;
      if (c == '"')
        return broken(
            source_, line_,
            "a quote inside an unquoted field; quote the whole field and double the quotes in it");
      if (c == '\0') return broken(source_, line_, "a zero byte; this is not a text file");
      out += c;
      ++at_;
    }
    return {};
  }

  Status quoted(std::string& out) {
    const auto opened = line_;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          ++at_;
        } else {
          ++at_;
          return after_quote();
        }
      }
      if (text_[at_] == '\n') ++line_;
      out += text_[at_];
    }
    return broken(source_, opened, "a quoted field is never closed");
  }

  Status after_quote() const {
    if (at_ >= text_.size() || text_[at_] == ',' || text_[at_] == '\n' || text_[at_] == '\r') {
      return {};
    }
    return broken(source_, line_, "text after a closing quote");
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

Status check_header(const std::vector<std::string>& header, const std::string& source) {
  for (auto it = header.begin(); it != header.end(); ++it) {
    if (std::find(header.begin(), it, *it) != it) {
      return broken(source, 1, "the column '" + *it + "' stands twice in the header");
    }
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
    if (table.header.empty()) {
      table.header = fields;
      MUSTER_CHECK_OK(check_header(table.header, source));
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
