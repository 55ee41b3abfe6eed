#include "cli/run_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/temp_dir.h"

namespace quern::test {
namespace {

void redirect(int fd, const Path& file, int flags) {
  const int opened = ::open(file.c_str(), flags, 0600);
  if (opened < 0 || ::dup2(opened, fd) < 0) ::_exit(126);
}

}  // namespace

Done quern(const std::vector<std::string>& arguments,
           const CommandInput& input) {
  const TempDir dir;
  const Path in = dir.write("in", input.text);
  const Path out = dir.write("out", ""), err = dir.write("err", "");
  std::vector<char*> argv{const_cast<char*>(QUERN_BINARY)};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);

  const pid_t child = ::fork();
  if (child < 0) fail("[tests.quern] cannot fork");
  if (child == 0) {
    redirect(STDIN_FILENO, in, O_RDONLY);
    redirect(STDOUT_FILENO, out, O_WRONLY);
    redirect(STDERR_FILENO, err, O_WRONLY);
    for (const auto& [name, value] : input.environment) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    ::execv(QUERN_BINARY, argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
          read_text(out).or_throw(), read_text(err).or_throw()};
}

}  // namespace quern::test
