#include "trainer/data/sequences.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trainer/data/files.h"

namespace muster::data {
namespace {

using SharedFiles = std::vector<std::shared_ptr<MappedFile>>;

// Samples [first, first + count) of one file.
struct Part {
  std::shared_ptr<MappedFile> file;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

std::int64_t token_at(const char* bytes, std::int64_t i, int width) {
  if (width == 1) return static_cast<unsigned char>(bytes[i]);
  if (width == 2) {
    std::uint16_t token;
    std::memcpy(&token, bytes + i * 2, 2);
    return token;
  }
  std::uint32_t token;
  std::memcpy(&token, bytes + i * 4, 4);
  return token;
}

class Sequences : public Dataset {
 public:
  Sequences(std::vector<Part> parts, int width, const Shape& shape)
      : parts_(std::move(parts)), width_(width), shape_(shape) {
    for (const auto& p : parts_) size_ += p.count;
  }
  std::int64_t size() const override { return size_; }
  const Shape& shape() const override { return shape_; }

  Status read(std::span<const std::int64_t> indices, Batch& batch) const override {
    const auto length = shape_.sequence_length;
    batch.samples = static_cast<std::int64_t>(indices.size());
    batch.units = batch.samples * length;
    batch.tokens.resize(indices.size() * static_cast<std::size_t>(length + 1));
    auto out = batch.tokens.begin();
    for (auto i : indices) {
      auto part = parts_.begin();
      while (i >= part->count) i -= (part++)->count;
      const auto begin = (part->first + i) * length;
      for (auto t = begin; t <= begin + length; ++t) {
        const auto token = token_at(part->file->bytes().data(), t, width_);
        if (token >= shape_.vocabulary_size) return outside(*part->file, t, token);
        *out++ = token;
      }
    }
    return {};
  }

 private:
  Error outside(const MappedFile& file, std::int64_t at, std::int64_t token) const {
    return {Code::invalid_data, file.path() + ": token " + std::to_string(at) + " is " +
                                    std::to_string(token) + ", outside the vocabulary of " +
                                    std::to_string(shape_.vocabulary_size) +
                                    "; check spec.data.vocabularySize and tokenBits"};
  }
  std::vector<Part> parts_;
  int width_;
  Shape shape_;
  std::int64_t size_ = 0;
};

Result<SharedFiles> map_files(const std::vector<std::string>& patterns, int width) {
  MUSTER_TRY(names, expand(patterns));
  SharedFiles files;
  for (const auto& name : names) {
    MUSTER_TRY(file, MappedFile::open(name));
    if (file->bytes().size() % static_cast<std::size_t>(width) != 0) {
      return Error{Code::invalid_data, name + ": its size is not a multiple of " +
                                           std::to_string(width) +
                                           " bytes a token; check spec.data.tokenBits"};
    }
    files.emplace_back(std::move(file));
  }
  return files;
}

std::int64_t windows(const MappedFile& file, int width, std::int64_t length) {
  const auto tokens = static_cast<std::int64_t>(file.bytes().size()) / width;
  return std::max<std::int64_t>(0, (tokens - 1) / length);
}

std::int64_t largest_token(const SharedFiles& files, int width) {
  std::int64_t largest = 0;
  for (const auto& f : files) {
    const auto count = static_cast<std::int64_t>(f->bytes().size()) / width;
    for (std::int64_t i = 0; i < count; ++i) {
      largest = std::max(largest, token_at(f->bytes().data(), i, width));
    }
  }
  return largest;
}

Status require_samples(const Dataset& set, const std::string& what, const job::Data& data) {
  if (set.size() > 0) return {};
  const auto length = std::to_string(data.sequence_length);
  if (data.validation_fraction > 0) {
    return Error{Code::invalid_data, "spec.data.validationFraction leaves no sequence of " +
                                         length + " tokens to " + what +
                                         "; change it, lower spec.data.sequenceLength or add data"};
  }
  return Error{Code::invalid_data,
               "no file to " + what + " holds a sequence of " + length +
                   " tokens and the one after it; lower spec.data.sequenceLength or add data"};
}

}  // namespace

Result<Datasets> open_sequences(const job::Data& data) {
  const int width = data.format == "text" ? 1 : data.token_bits == 32 ? 4 : 2;
  MUSTER_TRY(train, map_files(data.train, width));
  SharedFiles held_out;
  if (!data.validation.empty()) {
    MUSTER_TRY(mapped, map_files(data.validation, width));
    held_out = mapped;
  }
  Shape shape;
  shape.task = Task::language_model;
  shape.sequence_length = data.sequence_length;
  shape.vocabulary_size =
      width == 1 ? 256
      : data.vocabulary_size > 0
          ? data.vocabulary_size
          : std::max(largest_token(train, width), largest_token(held_out, width)) + 1;
  shape.preprocessing = {{"format", data.format}, {"sequenceLength", data.sequence_length}};
  std::vector<Part> train_parts, validation_parts;
  for (const auto& file : train) {
    const auto all = windows(*file, width, data.sequence_length);
    const auto last = static_cast<std::int64_t>(
        std::llround(data.validation_fraction * static_cast<double>(all)));
    train_parts.push_back({file, 0, all - last});
    if (last > 0) validation_parts.push_back({file, all - last, last});
  }
  for (const auto& file : held_out) {
    validation_parts.push_back({file, 0, windows(*file, width, data.sequence_length)});
  }
  Datasets sets;
  sets.train = std::make_unique<Sequences>(std::move(train_parts), width, shape);
  MUSTER_CHECK_OK(require_samples(*sets.train, "train on", data));
  if (!held_out.empty() || data.validation_fraction > 0) {
    sets.validation = std::make_unique<Sequences>(std::move(validation_parts), width, shape);
    MUSTER_CHECK_OK(require_samples(*sets.validation, "validate on", data));
  }
  return sets;
}

}  // namespace muster::data
