#include "trainer/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/crypto.h"
#include "trainer/checkpoint/durable_file.h"

namespace muster::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::uint64_t header_limit = 100'000'000;
constexpr int depth_limit = 8;

std::optional<std::uint64_t> width_of(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> widths = {
      {"F64", 8}, {"I64", 8}, {"U64", 8},  {"F32", 4},     {"I32", 4},
      {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2},     {"U16", 2},
      {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  const auto found = widths.find(dtype);
  if (found == widths.end()) return {};
  return found->second;
}

Error lie(const std::string& what) {
  return {Code::protocol, "not a valid safetensors header: " + what};
}

// Bytes of a shape; nothing when it overflows.
std::optional<std::uint64_t> bytes_of(const std::vector<std::int64_t>& shape, std::uint64_t width) {
  std::uint64_t bytes = width;
  for (const auto d : shape) {
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes)) return {};
  }
  return bytes;
}

Result<TensorView> parse_tensor(const std::string& name, const nlohmann::json& entry,
                                std::span<const std::byte> data, std::uint64_t& begin,
                                std::uint64_t& end) {
  const bool shaped = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                      entry.contains("shape") && entry["shape"].is_array() &&
                      entry.contains("data_offsets") && entry["data_offsets"].is_array() &&
                      entry["data_offsets"].size() == 2;
  if (!shaped) return lie("the entry '" + name + "' has no dtype, shape and data_offsets");
  TensorView view;
  view.name = name;
  view.dtype = entry["dtype"].get<std::string>();
  const auto width = width_of(view.dtype);
  if (!width) return lie("'" + name + "' has the unknown dtype " + view.dtype);
  for (const auto& d : entry["shape"]) {
    if (!d.is_number_unsigned() || d.get<std::uint64_t>() > (std::uint64_t{1} << 62)) {
      return lie("'" + name + "' has a bad shape");
    }
    view.shape.push_back(d.get<std::int64_t>());
  }
  const auto& offsets = entry["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return lie("'" + name + "' has bad offsets");
  }
  begin = offsets[0].get<std::uint64_t>();
  end = offsets[1].get<std::uint64_t>();
  const auto expected = bytes_of(view.shape, *width);
  if (begin > end || end > data.size() || !expected || *expected != end - begin) {
    return lie("'" + name + "' lies outside the file or does not fit its shape");
  }
  view.data = data.data() + begin;
  view.bytes = end - begin;
  return view;
}

Result<nlohmann::json> parse_header(std::span<const std::byte> bytes, std::uint64_t& length) {
  if (bytes.size() < 8) return lie("the file is shorter than 8 bytes");
  std::memcpy(&length, bytes.data(), 8);
  if (length > header_limit || length > bytes.size() - 8)
    return lie("its length is beyond the file");
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > depth_limit) too_deep = true;
    return depth <= depth_limit;
  };
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  auto json = nlohmann::json::parse(text, text + length, watch, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) return lie("its JSON is damaged");
  return json;
}

}  // namespace

Result<std::vector<TensorView>> SafetensorsFile::parse(
    std::span<const std::byte> bytes, std::map<std::string, std::string>* metadata) {
  std::uint64_t length = 0;
  MUSTER_TRY(header, parse_header(bytes, length));
  const auto data = bytes.subspan(8 + length);
  std::vector<TensorView> tensors;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return lie("__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return lie("__metadata__ holds something that is not text");
        if (metadata != nullptr) (*metadata)[key] = value.get<std::string>();
      }
      continue;
    }
    std::uint64_t begin = 0, end = 0;
    MUSTER_TRY(view, parse_tensor(name, entry, data, begin, end));
    tensors.push_back(std::move(view));
    ranges.emplace_back(begin, end);
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) return lie("tensors overlap or leave a gap");
    at = end;
  }
  if (at != data.size()) return lie("bytes follow the last tensor");
  return tensors;
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const std::string& path) {
  auto file = std::unique_ptr<SafetensorsFile>(new SafetensorsFile());
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{Code::io, "cannot open " + path + ": " + std::strerror(errno)};
  struct stat info {};
  ::fstat(fd, &info);
  file->size_ = static_cast<std::size_t>(info.st_size);
  void* memory =
      file->size_ > 0 ? ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  const int why = errno;
  ::close(fd);
  if (memory == MAP_FAILED) {
    return Error{Code::io, "cannot map " + path + ": " + std::strerror(why)};
  }
  file->map_ = memory;
  auto tensors = parse({static_cast<const std::byte*>(memory), file->size_}, &file->metadata_);
  if (!tensors.ok()) return tensors.error().while_doing(path);
  file->tensors_ = *std::move(tensors);
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (map_ != nullptr) ::munmap(map_, size_);
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&name](const TensorView& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

Result<Written> write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                                  const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto& t : tensors) {
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {at, at + t.bytes}}};
    at += t.bytes;
  }
  std::string text = header.dump();
  // Spaces up to where the tensors start at a multiple of 64 bytes.
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
  const std::uint64_t length = text.size();
  MUSTER_TRY(file, DurableFile::create(path));
  crypto::Sha256 hash;
  const auto put = [&](const void* data, std::size_t bytes) {
    hash.update(data, bytes);
    return file.write(data, bytes);
  };
  MUSTER_CHECK_OK(put(&length, 8));
  MUSTER_CHECK_OK(put(text.data(), text.size()));
  for (const auto& t : tensors) MUSTER_CHECK_OK(put(t.data, t.bytes));
  MUSTER_CHECK_OK(file.close());
  return Written{8 + length + at, hash.hex()};
}

}  // namespace muster::checkpoint
