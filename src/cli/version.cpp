#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlx/version.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

void print_version(bool as_json) {
  std::vector<std::string> available;
  for (Isa isa : kIsas) {
    if (isa_available(isa)) available.push_back(isa_name(isa));
  }
  const char* mlx = mlx::core::version();
  const int threads = thread_pool().threads();
  if (as_json) {
    return print_json({{"version", QUERN_VERSION},
                       {"mlx", mlx},
                       {"isa", kernels().name},
                       {"isa_available", available},
                       {"threads", threads},
                       {"compiler", kCompiler}});
  }
  print(
      fmt::format("quern {}\nMLX {}\nkernels: {} (of {})\nthreads: {}\n"
                  "compiler: {}\n",
                  QUERN_VERSION, mlx, kernels().name,
                  fmt::join(available, ", "), threads, kCompiler));
}

}  // namespace

Action add_version(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_flag(app, "--json", *json,
           "{version, mlx, isa, isa_available, threads, compiler}");
  return [json] { print_version(*json); };
}

}  // namespace quern
