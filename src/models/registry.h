// The model types quern runs, and loading one from its files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "files/gguf.h"
#include "models/model.h"

namespace quern {

// The model types of the table in registry.cpp.
std::vector<std::string> model_types();

// Loads a directory (config.json and safetensors) or a .gguf file. The reason
// of a failure is one line: file, tensor or field, and the fault; a type that
// is not in the table is refused by name.
Result<std::unique_ptr<TextModel>> load_model(const Path& path);
// The same from a file that is open already.
Result<std::unique_ptr<TextModel>> load_model(
    const std::shared_ptr<const Gguf>& file, const Path& path);

// From a configuration and tensors in Hugging Face's names; `where` names the
// configuration in reasons.
Result<std::unique_ptr<TextModel>> make_model(Json config, TensorSet tensors,
                                              const std::string& where);

}  // namespace quern
