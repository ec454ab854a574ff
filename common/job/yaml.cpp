#include "common/job/yaml.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace muster::job {
namespace {

using nlohmann::json;

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string place(const YAML::Node& node) {
  const auto mark = node.Mark();
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

class Converter {
 public:
  json convert(const YAML::Node& node, int depth) {
    if (depth > yaml_depth_limit) {
      throw Refused(place(node) + "nested deeper than " + std::to_string(yaml_depth_limit));
    }
    if (++nodes_ > yaml_node_limit) {
      throw Refused("more than " + std::to_string(yaml_node_limit) +
                    " values, aliases expanded; simplify the document");
    }
    if (node.IsSequence()) return sequence(node, depth);
    if (node.IsMap()) return map(node, depth);
    if (!node.IsScalar()) return nullptr;
    const auto& tag = node.Tag();
    if (tag == "?" || tag.empty()) return plain(node.Scalar());
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return node.Scalar();
    throw Refused(place(node) + "the tag " + tag + " is not supported; remove it");
  }

 private:
  json sequence(const YAML::Node& node, int depth) {
    auto list = json::array();
    for (const auto& item : node) list.push_back(convert(item, depth + 1));
    return list;
  }

  json map(const YAML::Node& node, int depth) {
    auto object = json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) throw Refused(place(entry.first) + "a key must be plain text");
      const auto& key = entry.first.Scalar();
      if (key == "<<") throw Refused(place(entry.first) + "merge keys (<<) are not supported");
      if (object.contains(key)) {
        throw Refused(place(entry.first) + "the key '" + key + "' stands twice");
      }
      object[key] = convert(entry.second, depth + 1);
    }
    return object;
  }

  std::size_t nodes_ = 0;
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
  try {
    std::vector<json> documents;
    Converter converter;
    for (const auto& node : YAML::LoadAll(text)) {
      if (!node.IsNull()) documents.push_back(converter.convert(node, 0));
    }
    return documents;
  } catch (const std::exception& e) {
    return Error{Code::invalid_job, source + ": " + e.what()};
  }
}

}  // namespace muster::job
