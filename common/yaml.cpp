#include "common/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace muster {
namespace {

using nlohmann::json;

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string place(const YAML::Mark& mark) {
  return mark.line < 0 ? "" : "line " + std::to_string(mark.line + 1) + ": ";
}

std::optional<std::int64_t> integer(const std::string& text) {
  int base = 10;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  if (text.starts_with("0x") || text.starts_with("0o")) {
    base = text[1] == 'x' ? 16 : 8;
    begin += 2;
  }
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(begin, end, value, base);
  if (error != std::errc() || at != end || begin == end) return {};
  return value;
}

std::optional<double> number(const std::string& text) {
  if (text.find_first_not_of("0123456789+-.eE") != std::string::npos) return {};
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto [at, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || at != text.data() + text.size()) return {};
  return value;
}

// The core schema of YAML 1.2, chapter 10.3.2, for plain scalars.
json plain(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return nullptr;
  }
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (const auto value = integer(text)) return *value;
  if (const auto value = number(text)) return *value;
  return text;
}

// Builds JSON from the parser's events, so that every cap holds while the text is read: yaml-cpp's
// own tree would be whole (or, for some malformed texts, endless) before it could be looked at.
class Builder : public YAML::EventHandler {
 public:
  std::vector<json> take() { return std::move(documents_); }

  void OnDocumentStart(const YAML::Mark&) override {
    if (++started_ > yaml_document_limit) throw Refused("more documents than are allowed");
    anchors_.clear();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, nullptr, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw Refused(place(mark) + "an alias of what is not there yet");
    count(mark, nodes_of(found->second));
    add(mark, found->second, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag == "?" || tag.empty()) return add(mark, plain(value), anchor, &value);
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return add(mark, value, anchor, &value);
    throw Refused(place(mark) + "the tag " + tag + " is not supported; remove it");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, json::array(), anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, json::object(), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    json value;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    std::optional<std::string> key;  // of a map, whose value comes next
  };

  static std::size_t nodes_of(const json& value) {
    std::size_t n = 1;
    if (value.is_structured()) {
      for (const auto& item : value) n += nodes_of(item);
    }
    return n;
  }

  void count(const YAML::Mark& mark, std::size_t n) {
    nodes_ += n;
    if (nodes_ <= yaml_node_limit) return;
    throw Refused(place(mark) + "more than " + std::to_string(yaml_node_limit) +
                  " values, aliases expanded; simplify the document");
  }

  void open(const YAML::Mark& mark, json value, YAML::anchor_t anchor) {
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().key) {
      throw Refused(place(mark) + "a key must be plain text");
    }
    count(mark, 1);
    if (open_.size() >= static_cast<std::size_t>(yaml_depth_limit)) {
      throw Refused(place(mark) + "nested deeper than " + std::to_string(yaml_depth_limit));
    }
    open_.push_back({std::move(value), anchor, mark, {}});
  }

  void close() {
    auto done = std::move(open_.back());
    open_.pop_back();
    add(done.mark, std::move(done.value), done.anchor);
  }

  // `text`: of a scalar, which may be a key.
  void add(const YAML::Mark& mark, json value, YAML::anchor_t anchor,
           const std::string* text = nullptr) {
    count(mark, 1);
    if (anchor != 0) anchors_[anchor] = value;
    if (open_.empty()) {
      if (!value.is_null()) documents_.push_back(std::move(value));
      return;
    }
    auto& parent = open_.back();
    if (parent.value.is_array()) return parent.value.push_back(std::move(value));
    if (parent.key) {
      parent.value[*parent.key] = std::move(value);
      parent.key.reset();
      return;
    }
    if (text == nullptr) throw Refused(place(mark) + "a key must be plain text");
    if (*text == "<<") throw Refused(place(mark) + "merge keys (<<) are not supported");
    if (parent.value.contains(*text)) {
      throw Refused(place(mark) + "the key '" + *text + "' stands twice");
    }
    parent.key = *text;
  }

  std::vector<json> documents_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, json> anchors_;
  std::size_t nodes_ = 0, started_ = 0;
};

// yaml-cpp recurses while it reads: brackets are counted before it does.
bool nested_too_deep(const std::string& text) {
  int depth = 0;
  std::size_t dashes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == '\n') dashes = 0;
    if ((c == '-' || c == '?' || c == ':') && i + 1 < text.size() && text[i + 1] == ' ') ++dashes;
    if (depth > 4 * yaml_depth_limit || dashes > 4 * yaml_depth_limit) return true;
  }
  return false;
}

bool is_utf8(const json& value) {
  try {
    (void)value.dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

// The first line, from 1, that is not UTF-8; 0 when all are.
std::size_t line_not_utf8(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  for (std::size_t n = 1; std::getline(lines, line); ++n) {
    if (!is_utf8(line)) return n;
  }
  return 0;
}

}  // namespace

Result<std::vector<json>> parse_yaml(const std::string& text, const std::string& source) {
  if (text.size() > yaml_byte_limit) {
    return Error{Code::invalid_job, source + " is larger than " + std::to_string(yaml_byte_limit) +
                                        " bytes; a TrainingJob is a few hundred"};
  }
  if (nested_too_deep(text)) {
    return Error{Code::invalid_job,
                 source + ": nested deeper than " + std::to_string(yaml_depth_limit)};
  }
  if (const auto line = line_not_utf8(text); line > 0) {
    return Error{Code::invalid_job, source + ": line " + std::to_string(line) +
                                        ": a byte that is not UTF-8; save the "
                                        "file as UTF-8"};
  }
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    Builder builder;
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take();
  } catch (const std::exception& e) {
    return Error{Code::invalid_job, source + ": " + e.what()};
  }
}

}  // namespace muster
