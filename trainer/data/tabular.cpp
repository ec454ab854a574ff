#include "trainer/data/tabular.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "trainer/data/files.h"
#include "trainer/data/order.h"

namespace muster::data {
namespace {

constexpr double largest_value = std::numeric_limits<float>::max();

std::string_view trimmed(std::string_view cell) {
  const auto first = cell.find_first_not_of(" \t");
  if (first == cell.npos) return {};
  return cell.substr(first, cell.find_last_not_of(" \t") - first + 1);
}

bool missing(std::string_view cell) {
  static const std::set<std::string_view> words = {"",    "NA",   "N/A",  "NaN",
                                                   "nan", "null", "None", "?"};
  return words.contains(trimmed(cell));
}

// What is written as a number, be it infinite; nothing for other texts.
std::optional<double> number(std::string_view cell) {
  auto text = trimmed(cell);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (at != text.data() + text.size() || error == std::errc::invalid_argument) return {};
  // from_chars leaves it open whether it was too large or too small.
  if (error != std::errc()) return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

// Infinities, NaN, and what does not fit the 32 bits that the model computes in are refused.
bool usable(std::optional<double> value) {
  return value && std::abs(*value) <= largest_value;
}

// A row of a table: tables of several files stay where they are.
struct Row {
  const CsvTable* table;
  const std::string* file;
  std::size_t row;
  const std::string& cell(std::size_t column) const { return table->at(row, column); }
  Error wrong(const std::string& column, const std::string& what) const {
    return {Code::invalid_data,
            *file + ":" + std::to_string(table->lines[row]) + ": column '" + column + "': " + what};
  }
};

Error not_a_number(const Row& row, const std::string& name, const std::string& cell) {
  return row.wrong(name, "'" + cell +
                             "' is not a finite number of 32 bits; correct it, leave it empty, or "
                             "declare the column as a category in spec.data.tabular");
}

struct Field {
  std::string name;
  std::size_t column = 0;
  bool is_number = false;
  double mean = 0, stddev = 1;
  std::map<std::string, std::int64_t> ids;  // categories: inputs from 1, classes from 0
};

struct Files {
  std::vector<std::string> names;
  std::vector<CsvTable> tables;
};

Status same_header(const Files& files, std::size_t file, const Files& first) {
  const auto& mine = files.tables[file].header;
  const auto& other = first.tables[0].header;
  if (mine == other) return {};
  const auto [m, o] = std::mismatch(mine.begin(), mine.end(), other.begin(), other.end());
  const auto name = [](const auto& header, auto at) {
    return at == header.end() ? std::string("absent") : "'" + *at + "'";
  };
  return Error{Code::invalid_data,
               files.names[file] + ": its header differs from that of " + first.names[0] +
                   ": column " + std::to_string(m - mine.begin() + 1) + " is " + name(mine, m) +
                   ", there " + name(other, o) + "; make all headers alike"};
}

Result<Files> read_files(const std::vector<std::string>& patterns) {
  MUSTER_TRY(names, expand(patterns));
  Files files{names, {}};
  for (const auto& name : names) {
    MUSTER_TRY(mapped, MappedFile::open(name));
    MUSTER_TRY(table, parse_csv(mapped->bytes(), name));
    files.tables.push_back(std::move(table));
    MUSTER_CHECK_OK(same_header(files, files.tables.size() - 1, files));
  }
  return files;
}

void append_rows(const Files& files, std::vector<Row>& rows) {
  for (std::size_t f = 0; f < files.tables.size(); ++f) {
    for (std::size_t r = 0; r < files.tables[f].rows(); ++r) {
      rows.push_back({&files.tables[f], &files.names[f], r});
    }
  }
}

Result<std::size_t> find_column(const CsvTable& table, const std::string& name,
                                const std::string& file) {
  const auto found = std::find(table.header.begin(), table.header.end(), name);
  if (found != table.header.end()) return static_cast<std::size_t>(found - table.header.begin());
  std::string known;
  for (const auto& h : table.header) known += (known.empty() ? "" : ", ") + h;
  return Error{Code::invalid_data,
               file + " has no column '" + name + "'; its columns are: " + known};
}

Status learn_number(Field& field, const std::vector<Row>& rows) {
  std::vector<double> values;
  for (const auto& row : rows) {
    const auto& cell = row.cell(field.column);
    if (missing(cell)) continue;
    const auto value = number(cell);
    if (!usable(value)) return not_a_number(row, field.name, cell);
    values.push_back(*value);
  }
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least == *most) {  // exactly, whatever the sum would round to
    field.mean = *least;
    return {};
  }
  field.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const auto value : values) squares += (value - field.mean) * (value - field.mean);
  const double deviation = std::sqrt(squares / count);
  if (deviation > 0) field.stddev = deviation;
  return {};
}

void learn_categories(Field& field, const std::vector<Row>& rows, std::int64_t first) {
  for (const auto& row : rows) {
    if (!missing(row.cell(field.column))) field.ids[row.cell(field.column)] = 0;
  }
  for (auto& [name, id] : field.ids) id = first++;
}

// What the training rows of a column of type auto hold.
struct Contents {
  std::size_t present = 0, numbers = 0;
  std::set<double> distinct;  // of the numbers, up to one more than a category may have
  const Row* first_text = nullptr;
};

// A column of numbers with a few texts in it is a mistake, not a category of this many values.
constexpr std::size_t most_distinct_numbers = 20;

Contents contents_of(std::size_t column, const std::vector<Row>& rows) {
  Contents contents;
  for (const auto& row : rows) {
    if (missing(row.cell(column))) continue;
    ++contents.present;
    if (const auto value = number(row.cell(column))) {
      ++contents.numbers;
      const bool ordered = !std::isnan(*value);
      if (ordered && contents.distinct.size() <= most_distinct_numbers) {
        contents.distinct.insert(*value);
      }
    } else if (contents.first_text == nullptr) {
      contents.first_text = &row;
    }
  }
  return contents;
}

// The type of a column of type auto.
Result<bool> infer_number(const Field& field, const std::vector<Row>& rows) {
  const auto contents = contents_of(field.column, rows);
  if (contents.numbers == contents.present) return contents.present > 0;
  const bool mostly_numbers = contents.numbers * 10 >= contents.present * 9;
  if (!mostly_numbers || contents.distinct.size() <= most_distinct_numbers) return false;
  const auto& row = *contents.first_text;
  return row.wrong(field.name, "'" + row.cell(field.column) +
                                   "' is not a number, but nearly all of the column are; correct "
                                   "it, leave it empty, or declare the column as a category in "
                                   "spec.data.tabular");
}

Status learn(Field& field, const std::string& type, const std::vector<Row>& rows,
             std::int64_t first_id) {
  field.is_number = type == "number";
  if (type == "auto") {
    MUSTER_TRY(inferred, infer_number(field, rows));
    field.is_number = inferred;
  }
  if (field.is_number) return learn_number(field, rows);
  learn_categories(field, rows, first_id);
  return {};
}

struct Schema {
  std::vector<Field> numbers, categories;
  Field output;
};

// The input columns that the job names, or all but the output.
Result<std::vector<job::Column>> input_columns(const job::Data& data, const CsvTable& table,
                                               const std::string& file, const std::string& output) {
  auto inputs = data.tabular.inputs;
  if (inputs.empty()) {
    for (const auto& name : table.header) {
      if (name != output) inputs.push_back({name, "auto"});
    }
  }
  if (inputs.empty()) {
    return Error{Code::invalid_data, file + " has no column but '" + output +
                                         "', so there is nothing to predict it from; columns are "
                                         "separated by commas"};
  }
  std::set<std::string> seen;
  for (const auto& input : inputs) {
    if (input.name == output) {
      return Error{Code::invalid_data, file + ": the column '" + output +
                                           "' is both an input and the output; remove it from "
                                           "spec.data.tabular.inputs or name another output"};
    }
    if (!seen.insert(input.name).second) {
      return Error{Code::invalid_data, file + ": the column '" + input.name +
                                           "' stands twice in spec.data.tabular.inputs"};
    }
  }
  return inputs;
}

Result<Schema> learn_schema(const job::Data& data, const CsvTable& table, const std::string& file,
                            const std::vector<Row>& rows) {
  Schema schema;
  const auto& spec = data.tabular;
  schema.output.name = spec.output.name.empty() ? table.header.back() : spec.output.name;
  MUSTER_TRY(output, find_column(table, schema.output.name, file));
  schema.output.column = output;
  MUSTER_TRY(inputs, input_columns(data, table, file, schema.output.name));
  MUSTER_CHECK_OK(learn(schema.output, spec.output.type, rows, 0));
  for (const auto& input : inputs) {
    MUSTER_TRY(column, find_column(table, input.name, file));
    Field field{input.name, column, false, 0, 1, {}};
    MUSTER_CHECK_OK(learn(field, input.type, rows, 1));
    (field.is_number ? schema.numbers : schema.categories).push_back(std::move(field));
  }
  if (!schema.output.is_number && schema.output.ids.size() < 2) {
    return Error{Code::invalid_data, file + ": the output column '" + schema.output.name +
                                         "' has fewer than two classes; choose another one in "
                                         "spec.data.tabular.output"};
  }
  return schema;
}

nlohmann::json describe(const Schema& schema) {
  nlohmann::json json{{"numbers", nlohmann::json::array()},
                      {"categories", nlohmann::json::array()}};
  for (const auto& f : schema.numbers) {
    json["numbers"].push_back({{"name", f.name}, {"mean", f.mean}, {"stddev", f.stddev}});
  }
  const auto values = [](const Field& f) {
    auto list = nlohmann::json::array();
    for (const auto& [name, id] : f.ids) list.push_back(name);
    return list;
  };
  for (const auto& f : schema.categories) {
    json["categories"].push_back({{"name", f.name}, {"values", values(f)}});
  }
  json["output"] = {{"name", schema.output.name}};
  if (schema.output.is_number) {
    json["output"]["mean"] = schema.output.mean;
    json["output"]["stddev"] = schema.output.stddev;
  } else {
    json["output"]["classes"] = values(schema.output);
  }
  return json;
}

Shape shape_of(const Schema& schema) {
  Shape shape;
  shape.task = schema.output.is_number ? Task::regression : Task::classification;
  shape.number_columns = static_cast<std::int64_t>(schema.numbers.size());
  for (const auto& f : schema.categories) {
    shape.category_names.push_back(f.name);
    shape.category_sizes.push_back(static_cast<std::int64_t>(f.ids.size()) + 1);
  }
  shape.classes = static_cast<std::int64_t>(schema.output.ids.size());
  shape.value_mean = schema.output.mean;
  shape.value_stddev = schema.output.stddev;
  shape.preprocessing = describe(schema);
  return shape;
}

class Tabular : public Dataset {
 public:
  static Result<std::unique_ptr<Dataset>> encode(const Schema& schema,
                                                 const std::vector<Row>& rows) {
    auto set = std::make_unique<Tabular>();
    set->shape_ = shape_of(schema);
    set->size_ = static_cast<std::int64_t>(rows.size());
    for (const auto& row : rows) {
      for (const auto& f : schema.numbers) MUSTER_CHECK_OK(set->add_number(f, row));
      for (const auto& f : schema.categories) {
        const auto known = f.ids.find(row.cell(f.column));
        set->categories_.push_back(known == f.ids.end() ? 0 : known->second);
      }
      MUSTER_CHECK_OK(set->add_output(schema.output, row));
    }
    return std::unique_ptr<Dataset>(std::move(set));
  }

  std::int64_t size() const override { return size_; }
  const Shape& shape() const override { return shape_; }

  Status read(std::span<const std::int64_t> indices, Batch& batch) const override {
    batch.samples = batch.units = static_cast<std::int64_t>(indices.size());
    take(indices, numbers_, static_cast<std::size_t>(shape_.number_columns), batch.numbers);
    take(indices, categories_, shape_.category_sizes.size(), batch.categories);
    take(indices, classes_, classes_.empty() ? 0 : 1, batch.classes);
    take(indices, values_, values_.empty() ? 0 : 1, batch.values);
    return {};
  }

 private:
  template <class T>
  static void take(std::span<const std::int64_t> indices, const std::vector<T>& from,
                   std::size_t width, std::vector<T>& to) {
    to.clear();
    for (const auto i : indices) {
      const auto begin = from.begin() + i * static_cast<std::int64_t>(width);
      to.insert(to.end(), begin, begin + static_cast<std::int64_t>(width));
    }
  }

  // In deviations from the mean of the training rows.
  static Status add_value(const Field& field, const Row& row, std::vector<float>& to) {
    const auto& cell = row.cell(field.column);
    const auto value = number(cell);
    if (!usable(value)) return not_a_number(row, field.name, cell);
    const double normalised = (*value - field.mean) / field.stddev;
    if (!usable(normalised)) {
      return row.wrong(field.name, "'" + cell + "' is too far from the training rows; correct it");
    }
    to.push_back(static_cast<float>(normalised));
    return {};
  }

  Status add_number(const Field& field, const Row& row) {
    if (!missing(row.cell(field.column))) return add_value(field, row, numbers_);
    numbers_.push_back(0);
    return {};
  }

  Status add_output(const Field& field, const Row& row) {
    const auto& cell = row.cell(field.column);
    if (missing(cell)) return row.wrong(field.name, "the output is missing; remove the row");
    if (field.is_number) return add_value(field, row, values_);
    const auto known = field.ids.find(cell);
    if (known == field.ids.end()) {
      return row.wrong(field.name, "the class '" + cell +
                                       "' is not among the training rows; add rows of it to "
                                       "spec.data.train, or remove this one");
    }
    classes_.push_back(known->second);
    return {};
  }

  Shape shape_;
  std::int64_t size_ = 0;
  std::vector<float> numbers_, values_;
  std::vector<std::int64_t> categories_, classes_;
};

// A fixed share of the rows, chosen by the seed, goes to validation.
void split(double fraction, std::int64_t seed, std::vector<Row>& train,
           std::vector<Row>& validation) {
  const auto n = train.size();
  const auto take = static_cast<std::size_t>(std::llround(fraction * static_cast<double>(n)));
  const Permutation permutation(static_cast<std::uint64_t>(seed), ~std::uint64_t{0}, n);
  std::vector<Row> all;
  all.swap(train);
  for (std::size_t i = 0; i < n; ++i) {
    (i < take ? validation : train).push_back(all[permutation(i)]);
  }
}

}  // namespace

Result<Datasets> open_csv(const job::Data& data, std::int64_t seed) {
  MUSTER_TRY(files, read_files(data.train));
  std::vector<Row> train, validation;
  append_rows(files, train);
  Files validation_files;
  if (!data.validation.empty()) {
    MUSTER_TRY(read, read_files(data.validation));
    validation_files = std::move(read);
    MUSTER_CHECK_OK(same_header(validation_files, 0, files));
    append_rows(validation_files, validation);
  } else if (data.validation_fraction > 0) {
    split(data.validation_fraction, seed, train, validation);
    if (train.empty() || validation.empty()) {
      return Error{Code::invalid_data,
                   files.names[0] + ": spec.data.validationFraction leaves no row to " +
                       (train.empty() ? "train" : "validate") + " on; change it or add rows"};
    }
  }
  MUSTER_TRY(schema, learn_schema(data, files.tables[0], files.names[0], train));
  Datasets sets;
  MUSTER_TRY(encoded, Tabular::encode(schema, train));
  sets.train = std::move(encoded);
  if (!validation.empty()) {
    MUSTER_TRY(held_out, Tabular::encode(schema, validation));
    sets.validation = std::move(held_out);
  }
  return sets;
}

}  // namespace muster::data
