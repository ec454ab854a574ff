#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/job/schema.h"

namespace muster::job {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  auto text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

std::string number_text(double v) {
  return v == std::floor(v) && std::abs(v) < 1e15 ? std::to_string(static_cast<long long>(v))
                                                  : json(v).dump();
}

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1,
                         diagonal + (std::tolower(a[i - 1]) != std::tolower(b[j - 1]))});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  const auto best = std::min_element(known.begin(), known.end(), [&](auto& a, auto& b) {
    return distance(name, a) < distance(name, b);
  });
  if (best == known.end()) return "";
  return distance(name, *best) <= std::max<std::size_t>(2, name.size() / 3) ? *best : "";
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : ", ") + (w.empty() ? "\"\"" : w);
  return text;
}

const char* type_name(Type type) {
  switch (type) {
    case Type::object:
    case Type::free_object:
      return "an object";
    case Type::list:
      return "a list";
    case Type::string:
      return "a string";
    case Type::integer:
      return "a whole number";
    case Type::number:
      return "a number";
    case Type::boolean:
      return "true or false";
    case Type::string_map:
      return "an object of strings";
    case Type::integer_map:
      return "an object of whole numbers";
  }
  return "";
}

bool has_type(Type type, const json& v) {
  switch (type) {
    case Type::object:
    case Type::free_object:
    case Type::string_map:
    case Type::integer_map:
      return v.is_object();
    case Type::list:
      return v.is_array();
    case Type::string:
      return v.is_string();
    case Type::integer:
      return v.is_number_integer() ||
             (v.is_number_float() && std::floor(v.get<double>()) == v.get<double>() &&
              std::abs(v.get<double>()) < 9e15);
    case Type::number:
      return v.is_number();
    case Type::boolean:
      return v.is_boolean();
  }
  return false;
}

class Checker {
 public:
  explicit Checker(std::vector<Problem>& problems) : problems_(problems) {}

  void value(const Field& field, json& v, const std::string& path) {
    if (!has_type(field.type, v)) {
      if (not_finite(field, v)) return report(path, "must be finite, but is " + shown(v));
      if (too_large(field, v)) {
        return report(path,
                      "must be a whole number of at most 9223372036854775807, written without an "
                      "exponent, but is " +
                          shown(v));
      }
      std::string wanted = type_name(field.type);
      if (field.or_auto) wanted += " or auto";
      return report(path, "must be " + wanted + ", but is " + shown(v) + hint(field, v));
    }
    switch (field.type) {
      case Type::object:
        return object(field, v, path);
      case Type::list:
        return list(field, v, path);
      case Type::string:
        return string(field, v, path);
      case Type::integer:
        v = v.is_number_float() ? json(static_cast<std::int64_t>(v.get<double>())) : v;
        return range(field, v, path);
      case Type::number:
        return range(field, v, path);
      case Type::string_map:
        for (const auto& [key, item] : v.items()) {
          if (!item.is_string())
            report(path + "." + key, "must be a string, but is " + shown(item) + "; quote it");
        }
        return;
      case Type::integer_map:
        for (const auto& [key, item] : v.items()) {
          if (!item.is_number_integer()) {
            report(path + "." + key, "must be a whole number, but is " + shown(item));
          }
        }
        return;
      case Type::boolean:
      case Type::free_object:
        return;
    }
  }

 private:
  void report(const std::string& path, const std::string& message) {
    problems_.push_back({path, message});
  }

  // YAML's .inf and .nan, which JSON has no numbers for.
  static bool not_finite(const Field& field, const json& v) {
    if ((field.type != Type::number && field.type != Type::integer) || !v.is_string()) return false;
    auto text = v.get<std::string>();
    for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text == ".inf" || text == "-.inf" || text == "+.inf" || text == ".nan";
  }

  // A whole number that is read as a float because it does not fit 64 bits.
  static bool too_large(const Field& field, const json& v) {
    return field.type == Type::integer && v.is_number_float() && std::abs(v.get<double>()) >= 9e15;
  }

  static std::string hint(const Field& field, const json& v) {
    if (field.type == Type::string && (v.is_number() || v.is_boolean())) return "; quote it";
    if (field.type == Type::list && !v.is_object()) return "; write [" + shown(v) + "]";
    if (v.is_null()) return "; remove the field or give it a value";
    return "; " + field.description;
  }

  void object(const Field& field, json& v, const std::string& path) {
    std::vector<std::string> known;
    for (const auto& f : field.fields) known.push_back(f.name);
    const auto prefix = path.empty() ? "" : path + ".";
    for (const auto& [key, ignored] : v.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const auto near = nearest(key, known);
      report(prefix + key,
             "is not a field here; " + (near.empty() ? "the fields are: " + listed(known)
                                                     : "did you mean " + near + "?"));
    }
    for (const auto& f : field.fields) child(f, v, prefix + f.name);
  }

  void child(const Field& f, json& parent, const std::string& path) {
    if (f.or_auto && parent.contains(f.name) && parent[f.name] == "auto") parent.erase(f.name);
    if (!parent.contains(f.name)) {
      if (f.required) report(path, "is missing; " + f.description);
      if (f.preset.is_null()) return;
      parent[f.name] = f.preset;
    }
    value(f, parent[f.name], path);
  }

  void list(const Field& field, json& v, const std::string& path) {
    const auto most = field.most > 0 ? field.most : list_limit;
    if (v.size() > most) {
      return report(path, "has " + std::to_string(v.size()) + " items; at most " +
                              std::to_string(most) + " are allowed");
    }
    if (v.size() < field.least) return report(path, "is empty; " + field.description);
    Field item = field;
    item.type = field.item;
    item.least = item.most = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      value(item, v[i], path + "[" + std::to_string(i) + "]");
    }
  }

  void string(const Field& field, const json& v, const std::string& path) {
    const auto& text = v.get_ref<const std::string&>();
    const auto most = field.most > 0 ? field.most : string_limit;
    if (text.size() > most) {
      return report(path, "is longer than " + std::to_string(most) + " characters");
    }
    if (field.required && text.empty()) return report(path, "is empty; " + field.description);
    if (field.choices.empty()) return;
    if (std::find(field.choices.begin(), field.choices.end(), text) != field.choices.end()) return;
    const auto near = nearest(text, field.choices);
    report(path, "must be one of " + listed(field.choices) + ", but is " + shown(v) +
                     (near.empty() ? "" : "; did you mean " + near + "?"));
  }

  void range(const Field& field, const json& v, const std::string& path) {
    const double x = v.get<double>();
    if (!std::isfinite(x)) return report(path, "must be finite");
    const bool low =
        field.minimum && (field.above_minimum ? x <= *field.minimum : x < *field.minimum);
    if (low) {
      report(path, std::string("must be ") + (field.above_minimum ? "above " : "at least ") +
                       number_text(*field.minimum) + ", but is " + shown(v) + "; " +
                       field.description);
    }
    if (field.maximum && x > *field.maximum) {
      report(path, "must be at most " + number_text(*field.maximum) + ", but is " + shown(v) +
                       "; " + field.description);
    }
  }

  std::vector<Problem>& problems_;
};

}  // namespace

void check(const Field& field, json& value, const std::string& path,
           std::vector<Problem>& problems) {
  Checker(problems).value(field, value, path);
}

}  // namespace muster::job
