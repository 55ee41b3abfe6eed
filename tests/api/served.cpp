#include "api/served.h"

#include "text/synthetic.h"

namespace quern::test {
namespace {

constexpr const char* kTemplate =
    "{# <tool_call> tool_call.name #}"
    "{%- for t in tools or [] %}{{ t | tojson }}\n{% endfor -%}"
    "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor -%}"
    "{%- if add_generation_prompt %}assistant: {% endif -%}"
    "{%- if enable_thinking is defined %}"
    "{{ '<think>' if enable_thinking else '<think>\n\n</think>\n\n' }}"
    "{%- endif -%}";

class FactsOnly final : public TextModel {
 public:
  FactsOnly() {
    facts_ = {.type = "none",
              .vocabulary = kVocabulary,
              .layers = 1,
              .context = 4096};
  }
  mx::array hidden(const mx::array&, const Step&) const override { none(); }
  mx::array logits(const mx::array&, Precision) const override { none(); }
  Row make_row(const KvScheme&) const override { none(); }

 private:
  [[noreturn]] static void none() { fail("[test] there are no weights"); }
};

}  // namespace

std::shared_ptr<ServedModel> served_with_template(std::string source) {
  const Tokenizer tokenizer = synthetic::byte_level();
  auto templates = ChatTemplates::from_source(std::move(source)).or_throw();
  auto format = ReplyFormat::of(tokenizer, templates);
  return std::make_shared<ServedModel>(
      ServedModel{.id = "tiny",
                  .created = 7,
                  .model = std::make_unique<FactsOnly>(),
                  .tokenizer = tokenizer,
                  .templates = std::move(templates),
                  .format = std::move(format)});
}

std::shared_ptr<ServedModel> served_without_engine() {
  return served_with_template(kTemplate);
}

}  // namespace quern::test
