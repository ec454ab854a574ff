#include "trainer/data/tabular.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "trainer/data/files.h"
#include "trainer/data/order.h"

namespace muster::data {
namespace {

bool missing(const std::string& cell) {
  static const std::set<std::string, std::less<>> words = {"",    "NA",   "N/A",  "NaN",
                                                           "nan", "null", "None", "?"};
  return words.contains(cell);
}

std::optional<double> number(const std::string& cell) {
  const auto first = cell.find_first_not_of(" \t"), last = cell.find_last_not_of(" \t");
  if (first == std::string::npos) return {};
  const char* begin = cell.data() + first + (cell[first] == '+' ? 1 : 0);
  const char* end = cell.data() + last + 1;
  double value = 0;
  const auto [at, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || at != end || !std::isfinite(value)) return {};
  return value;
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

Result<Files> read_files(const std::vector<std::string>& patterns) {
  MUSTER_TRY(names, expand(patterns));
  Files files{names, {}};
  for (const auto& name : names) {
    MUSTER_TRY(mapped, MappedFile::open(name));
    MUSTER_TRY(table, parse_csv(mapped->bytes(), name));
    if (!files.tables.empty() && table.header != files.tables[0].header) {
      return Error{Code::invalid_data,
                   name + ": its header differs from that of " + names[0] + "; all must be alike"};
    }
    files.tables.push_back(std::move(table));
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
  double sum = 0, squares = 0;
  std::size_t count = 0;
  for (const auto& row : rows) {
    if (missing(row.cell(field.column))) continue;
    const auto value = number(row.cell(field.column));
    if (!value) {
      return row.wrong(field.name, "'" + row.cell(field.column) +
                                       "' is not a finite number; correct it, or declare the "
                                       "column as a category in spec.data.tabular");
    }
    sum += *value;
    ++count;
  }
  if (count == 0) return {};
  field.mean = sum / static_cast<double>(count);
  for (const auto& row : rows) {
    if (missing(row.cell(field.column))) continue;
    const double d = *number(row.cell(field.column)) - field.mean;
    squares += d * d;
  }
  const double deviation = std::sqrt(squares / static_cast<double>(count));
  if (deviation > 0) field.stddev = deviation;
  return {};
}

void learn_categories(Field& field, const std::vector<Row>& rows, std::int64_t first) {
  for (const auto& row : rows) {
    if (!missing(row.cell(field.column))) field.ids[row.cell(field.column)] = 0;
  }
  for (auto& [name, id] : field.ids) id = first++;
}

bool looks_like_number(std::size_t column, const std::vector<Row>& rows) {
  bool any = false;
  for (const auto& row : rows) {
    if (missing(row.cell(column))) continue;
    any = true;
    if (!number(row.cell(column))) return false;
  }
  return any;
}

Status learn(Field& field, const std::string& type, const std::vector<Row>& rows,
             std::int64_t first_id) {
  field.is_number = type == "number" || (type == "auto" && looks_like_number(field.column, rows));
  if (field.is_number) return learn_number(field, rows);
  learn_categories(field, rows, first_id);
  return {};
}

struct Schema {
  std::vector<Field> numbers, categories;
  Field output;
};

Result<Schema> learn_schema(const job::Data& data, const CsvTable& table, const std::string& file,
                            const std::vector<Row>& rows) {
  Schema schema;
  const auto& spec = data.tabular;
  schema.output.name = spec.output.name.empty() ? table.header.back() : spec.output.name;
  MUSTER_TRY(output, find_column(table, schema.output.name, file));
  schema.output.column = output;
  MUSTER_CHECK_OK(learn(schema.output, spec.output.type, rows, 0));
  auto inputs = spec.inputs;
  if (inputs.empty()) {
    for (const auto& name : table.header) {
      if (name != schema.output.name) inputs.push_back({name, "auto"});
    }
  }
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

  Status add_number(const Field& field, const Row& row) {
    const auto& cell = row.cell(field.column);
    if (missing(cell)) {
      numbers_.push_back(0);
      return {};
    }
    const auto value = number(cell);
    if (!value) return row.wrong(field.name, "'" + cell + "' is not a finite number");
    numbers_.push_back(static_cast<float>((*value - field.mean) / field.stddev));
    return {};
  }

  Status add_output(const Field& field, const Row& row) {
    const auto& cell = row.cell(field.column);
    if (missing(cell)) return row.wrong(field.name, "the output is missing; remove the row");
    if (field.is_number) {
      const auto value = number(cell);
      if (!value) return row.wrong(field.name, "'" + cell + "' is not a finite number");
      values_.push_back(static_cast<float>((*value - field.mean) / field.stddev));
      return {};
    }
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
    if (validation_files.tables[0].header != files.tables[0].header) {
      return Error{Code::invalid_data, validation_files.names[0] +
                                           ": its header differs from that of " + files.names[0] +
                                           "; all must be alike"};
    }
    append_rows(validation_files, validation);
  } else if (data.validation_fraction > 0) {
    split(data.validation_fraction, seed, train, validation);
  }
  if (train.empty()) {
    return Error{Code::invalid_data,
                 files.names[0] + ": spec.data.validationFraction leaves no row to train on"};
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
