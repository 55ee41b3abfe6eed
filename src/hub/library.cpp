#include "hub/library.h"

#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/str.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultModel = "SmolLM2-135M-Instruct.Q4_1.gguf";

std::optional<Path> from_env(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return {};
  return Path(value);
}

Path home() {
  if (auto dir = from_env("HOME")) return *dir;
  const passwd* user = ::getpwuid(::getuid());
  return user ? user->pw_dir : "/";
}

bool is_dir(const Path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_file(const Path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

uint64_t file_bytes(const Path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

// What a directory holds, sorted by name; nothing if it cannot be read.
std::vector<Path> entries(const Path& dir) {
  std::vector<Path> out;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A language model's file, not the image encoder that may lie beside it.
bool is_gguf_model(const Path& path) {
  return path.extension() == ".gguf" && is_file(path) &&
         !path.filename().string().starts_with("mmproj");
}

LocalModel gguf_model(std::string id, const Path& path) {
  return {std::move(id), path, ModelFormat::Gguf, file_bytes(path)};
}

// The models of one directory: itself if it has config.json and weights, else
// its GGUF files.
std::vector<LocalModel> models_in(const Path& dir, const std::string& id) {
  uint64_t weights = 0;
  std::vector<Path> ggufs;
  bool has_weights = false;
  for (const Path& path : entries(dir)) {
    if (is_gguf_model(path)) ggufs.push_back(path);
    if (path.extension() == ".safetensors" && is_file(path)) {
      has_weights = true;
      weights += file_bytes(path);
    }
  }
  if (has_weights && is_file(dir / "config.json")) {
    return {{id, dir, ModelFormat::Safetensors, weights}};
  }
  if (ggufs.size() == 1) return {gguf_model(id, ggufs[0])};
  std::vector<LocalModel> out;
  for (const Path& path : ggufs) {
    out.push_back(gguf_model(id + "/" + path.filename().string(), path));
  }
  return out;
}

// The snapshot that refs/main names, else the newest one.
std::optional<Path> snapshot(const Path& repo) {
  const Path snapshots = repo / "snapshots";
  if (auto text = read_text(repo / "refs" / "main", 256)) {
    std::string commit = *text;
    while (!commit.empty() && std::isspace(uint8_t(commit.back()))) {
      commit.pop_back();
    }
    const bool plain = std::all_of(commit.begin(), commit.end(), [](char c) {
      return std::isalnum(uint8_t(c)) != 0;
    });
    if (!commit.empty() && plain && is_dir(snapshots / commit)) {
      return snapshots / commit;
    }
  }
  std::optional<Path> newest;
  fs::file_time_type newest_time{};
  for (const Path& path : entries(snapshots)) {
    std::error_code error;
    const auto time = fs::last_write_time(path, error);
    if (error || !is_dir(path)) continue;
    if (!newest || time > newest_time) {
      newest = path;
      newest_time = time;
    }
  }
  return newest;
}

std::vector<LocalModel> hub_models(const Path& cache) {
  constexpr std::string_view prefix = "models--";
  std::vector<LocalModel> out;
  for (const Path& repo : entries(cache)) {
    std::string id = repo.filename().string();
    if (!id.starts_with(prefix)) continue;
    id.erase(0, prefix.size());
    // A hub name never holds "--" itself.
    if (auto at = id.find("--"); at != id.npos) {
      id.erase(at, 1);
      id[at] = '/';
    }
    const auto dir = snapshot(repo);
    if (!dir) continue;
    for (auto& model : models_in(*dir, id)) out.push_back(std::move(model));
  }
  return out;
}

std::vector<LocalModel> folder_models(const Path& folder) {
  std::vector<LocalModel> out;
  for (const Path& path : entries(folder)) {
    const std::string name = path.filename().string();
    if (is_gguf_model(path)) {
      out.push_back(gguf_model(name, path));
    } else if (is_dir(path)) {
      for (auto& model : models_in(path, name)) {
        out.push_back(std::move(model));
      }
    }
  }
  return out;
}

std::string ids(const std::vector<LocalModel>& models) {
  std::vector<std::string_view> out;
  for (const auto& model : models) out.push_back(model.id);
  return fmt::format("{}", fmt::join(out, ", "));
}

Result<Path> resolve_path(const Path& path) {
  if (!is_dir(path)) {
    if (path.extension() == ".gguf") return path;
    return failure(
        "{} is not a model: expected a .gguf file or a directory with "
        "config.json and *.safetensors",
        path.string());
  }
  const auto models = models_in(path, path.string());
  if (models.empty()) {
    return failure(
        "{} holds no model: expected config.json and *.safetensors, or a "
        ".gguf file",
        path.string());
  }
  if (models.size() > 1) {
    return failure("{} holds several models, name one: {}", path.string(),
                   ids(models));
  }
  return models[0].path;
}

Result<Path> default_model(const Places& places) {
  const Path path = places.models / kDefaultModel;
  if (is_file(path)) return path;
  return failure(
      "no MODEL given, and the default model {} is not in {} (set-up puts it "
      "there; QUERN_MODELS names another folder)",
      kDefaultModel, places.models.string());
}

}  // namespace

Places Places::from_environment() {
  Places out;
  if (auto cache = from_env("HF_HUB_CACHE")) {
    out.hub_cache = *cache;
  } else if (auto hf_home = from_env("HF_HOME")) {
    out.hub_cache = *hf_home / "hub";
  } else {
    out.hub_cache = home() / ".cache" / "huggingface" / "hub";
  }
  out.models =
      from_env("QUERN_MODELS").value_or(home() / ".cache" / "quern" / "models");
  return out;
}

std::string_view format_name(ModelFormat format) {
  return format == ModelFormat::Gguf ? "gguf" : "safetensors";
}

std::vector<LocalModel> list_models(const Places& places) {
  auto out = hub_models(places.hub_cache);
  for (auto& model : folder_models(places.models)) {
    out.push_back(std::move(model));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](auto& a, auto& b) { return a.id < b.id; });
  return out;
}

Result<Path> resolve_model(const std::optional<std::string>& argument,
                           const Places& places) {
  if (!argument) return default_model(places);
  std::error_code error;
  if (argument->empty()) return failure("the MODEL argument is empty");
  if (fs::exists(*argument, error)) return resolve_path(*argument);
  const std::string wanted = lower(*argument);
  std::vector<LocalModel> same, part;
  for (auto& model : list_models(places)) {
    const std::string id = lower(model.id);
    if (id == wanted) same.push_back(model);
    if (id.find(wanted) != id.npos) part.push_back(model);
  }
  const auto& found = same.empty() ? part : same;
  if (found.size() == 1) return found[0].path;
  if (found.empty()) {
    return failure(
        "no model {}: not a path, and no such id in the hub cache {} or in {}",
        in_quotes(*argument), places.hub_cache.string(),
        places.models.string());
  }
  return failure("several models match {}, name one: {}", in_quotes(*argument),
                 ids(found));
}

}  // namespace quern
