#include "hub/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/temp_dir.h"

namespace quern {
namespace {

using std::chrono::hours;
using test::TempDir;
using testing::ElementsAre;

constexpr const char* kDefault = "SmolLM2-135M-Instruct.Q4_1.gguf";

// A hub cache and a models folder, both empty.
class Library : public testing::Test {
 protected:
  // Writes a file of a hub repository's snapshot.
  Path hub_file(const std::string& repo, const std::string& commit,
                const std::string& name, std::string_view bytes = "") {
    return dir.write(Path("hub") / repo / "snapshots" / commit / name, bytes);
  }

  void refs_main(const std::string& repo, std::string_view commit) {
    dir.write(Path("hub") / repo / "refs" / "main", commit);
  }

  // A repository with one snapshot of a safetensors model.
  Path hub_model(const std::string& repo) {
    hub_file(repo, "c0", "model.safetensors", "12345678");
    return hub_file(repo, "c0", "config.json", "{}").parent_path();
  }

  Path resolved(const std::string& argument) {
    const auto path = resolve_model(argument, places);
    EXPECT_TRUE(path) << path.reason();
    return path ? *path : Path();
  }

  std::string refusal(const std::optional<std::string>& argument) {
    const auto path = resolve_model(argument, places);
    return path ? "resolved to " + path->string() : path.reason();
  }

  TempDir dir;
  Places places{dir.path() / "hub", dir.path() / "models"};
};

TEST_F(Library, DefaultModel) {
  EXPECT_EQ(refusal(std::nullopt),
            std::string("no MODEL given, and the default model ") + kDefault +
                " is not in " + places.models.string() +
                " (set-up puts it there; QUERN_MODELS names another folder)");
  const Path path = dir.write(Path("models") / kDefault, "x");
  EXPECT_EQ(resolve_model(std::nullopt, places).value(), path);
}

TEST_F(Library, Paths) {
  const Path file = dir.write("a.gguf", "x");
  EXPECT_EQ(resolved(file), file);

  dir.write("m/config.json", "{}");
  dir.write("m/model.safetensors", "x");
  EXPECT_EQ(resolved(dir.path() / "m"), dir.path() / "m");

  const Path only = dir.write("g/only.gguf", "x");
  dir.write("g/mmproj-f16.gguf", "x");
  EXPECT_EQ(resolved(dir.path() / "g"), only);
}

TEST_F(Library, PathsThatAreNoModel) {
  const std::string text = dir.write("notes.txt", "x");
  EXPECT_EQ(refusal(text),
            text +
                " is not a model: expected a .gguf file or a directory "
                "with config.json and *.safetensors");
  dir.write("c/config.json", "{}");
  const std::string config_only = dir.path() / "c";
  EXPECT_EQ(refusal(config_only),
            config_only +
                " holds no model: expected config.json and "
                "*.safetensors, or a .gguf file");
  dir.write("two/a.gguf", "x");
  dir.write("two/b.gguf", "x");
  const std::string two = dir.path() / "two";
  EXPECT_EQ(refusal(two), two + " holds several models, name one: " + two +
                              "/a.gguf, " + two + "/b.gguf");
}

TEST_F(Library, HubIds) {
  const Path path = hub_model("models--org--Name-1B");
  EXPECT_EQ(resolved("org/Name-1B"), path);
  EXPECT_EQ(resolved("ORG/name-1b"), path);
  EXPECT_EQ(resolved("name"), path);
  const Path bare = hub_model("models--gpt2");
  EXPECT_EQ(resolved("gpt2"), bare);
}

TEST_F(Library, RefsMainPicksTheSnapshot) {
  const std::string repo = "models--o--n";
  hub_file(repo, "aaa", "m.gguf");
  const Path newer = hub_file(repo, "bbb", "m.gguf");
  std::filesystem::last_write_time(
      newer.parent_path(),
      std::filesystem::file_time_type::clock::now() + hours(1));
  EXPECT_EQ(resolved("o/n"), newer);
  refs_main(repo, "aaa\n");
  EXPECT_EQ(resolved("o/n").parent_path().filename(), "aaa");
}

TEST_F(Library, RefsMainCannotLeaveTheRepository) {
  const Path inside = hub_file("models--o--n", "aaa", "m.gguf");
  dir.write("outside/x.gguf", "x");
  for (const char* ref : {"../../../outside", "", ".", "missing"}) {
    refs_main("models--o--n", ref);
    EXPECT_EQ(resolved("o/n"), inside) << ref;
  }
}

TEST_F(Library, SnapshotWithSeveralGgufs) {
  const Path q4 = hub_file("models--o--n", "c", "n-Q4_0.gguf");
  hub_file("models--o--n", "c", "n-Q8_0.gguf");
  EXPECT_EQ(refusal("o/n"),
            "several models match 'o/n', name one: o/n/n-Q4_0.gguf, "
            "o/n/n-Q8_0.gguf");
  EXPECT_EQ(resolved("o/n/n-q4_0.gguf"), q4);
  EXPECT_EQ(resolved("q4_0"), q4);
}

TEST_F(Library, WholeIdBeatsPartsOfOthers) {
  const Path path = hub_model("models--o--n");
  hub_model("models--o--n-large");
  EXPECT_EQ(resolved("o/n"), path);
  EXPECT_EQ(refusal("N"), "several models match 'N', name one: o/n, o/n-large");
}

TEST_F(Library, NotFound) {
  EXPECT_EQ(refusal("o/none"),
            "no model 'o/none': not a path, and no such id in the hub cache " +
                places.hub_cache.string() + " or in " + places.models.string());
  EXPECT_EQ(refusal(""), "the MODEL argument is empty");
}

TEST_F(Library, ListsEveryModel) {
  hub_model("models--org--plain");
  hub_file("models--org--half", "c0", "config.json", "{}");
  hub_file("datasets--org--data", "c0", "x.gguf", "x");
  dir.write("models/b.gguf", "123");
  dir.write("models/readme.md", "x");
  dir.write("models/d/config.json", "{}");
  dir.write("models/d/m-1.safetensors", "12");
  dir.write("models/d/m-2.safetensors", "345");
  std::vector<std::string> rows;
  for (const auto& m : list_models(places)) {
    rows.push_back(
        fmt::format("{} {} {} {}", m.id, format_name(m.format), m.bytes,
                    std::filesystem::relative(m.path, dir.path()).string()));
  }
  EXPECT_THAT(rows, ElementsAre("b.gguf gguf 3 models/b.gguf",
                                "d safetensors 5 models/d",
                                "org/plain safetensors 8 "
                                "hub/models--org--plain/snapshots/c0"));
}

TEST_F(Library, FollowsTheLinksOfTheHubCache) {
  dir.write("hub/models--o--n/blobs/b0", "12345");
  const Path config = hub_file("models--o--n", "c0", "config.json", "{}");
  std::filesystem::create_symlink("../../blobs/b0",
                                  config.parent_path() / "model.safetensors");
  std::filesystem::create_symlink("../../blobs/gone",
                                  config.parent_path() / "lost.gguf");
  const auto models = list_models(places);
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].bytes, 5u);
}

// Sets or clears a variable for its scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedEnv() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) {
    value ? ::setenv(name_, value, 1) : ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> old_;
};

TEST(Places, FromTheEnvironment) {
  ScopedEnv home("HOME", "/home/u"), models("QUERN_MODELS", nullptr),
      hf_home("HF_HOME", nullptr), cache("HF_HUB_CACHE", nullptr);
  EXPECT_EQ(Places::from_environment().hub_cache,
            "/home/u/.cache/huggingface/hub");
  EXPECT_EQ(Places::from_environment().models, "/home/u/.cache/quern/models");
  ScopedEnv hf_home_set("HF_HOME", "/hf"), models_set("QUERN_MODELS", "/m");
  EXPECT_EQ(Places::from_environment().hub_cache, "/hf/hub");
  EXPECT_EQ(Places::from_environment().models, "/m");
  ScopedEnv cache_set("HF_HUB_CACHE", "/cache");
  EXPECT_EQ(Places::from_environment().hub_cache, "/cache");
}

}  // namespace
}  // namespace quern
