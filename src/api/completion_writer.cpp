#include "api/completion_writer.h"

#include <algorithm>

#include "base/str.h"
#include "text/detokenizer.h"

namespace quern {
namespace {

constexpr std::string_view kObject = "text_completion";

// Tokens that are no text are told apart by their bytes.
std::string token_name(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  if (valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (unsigned char byte : bytes) name += fmt::format("\\x{:02x}", byte);
  return name;
}

// The parallel lists of a legacy logprobs object.
class LogprobLists {
 public:
  LogprobLists(const Tokenizer& tokenizer, bool top)
      : tokenizer_(tokenizer), top_(top) {}

  // A token that nothing predicted.
  void add_unscored(int32_t id, int offset) {
    add(id, offset, nullptr, nullptr);
  }
  // The most likely tokens and the one that was taken.
  void add(const Sampled& sampled, int offset) {
    Json top = Json::object();
    for (auto [id, logprob] : sampled.top) {
      top[token_name(tokenizer_, id)] = logprob;
    }
    top[token_name(tokenizer_, sampled.token)] = sampled.logprob;
    add(sampled.token, offset, sampled.logprob, std::move(top));
  }

  Json json() && {
    return {{"tokens", std::move(tokens_)},
            {"token_logprobs", std::move(logprobs_)},
            {"top_logprobs", top_ ? std::move(tops_) : Json(nullptr)},
            {"text_offset", std::move(offsets_)}};
  }

 private:
  void add(int32_t id, int offset, Json logprob, Json top) {
    tokens_.push_back(token_name(tokenizer_, id));
    logprobs_.push_back(std::move(logprob));
    tops_.push_back(std::move(top));
    offsets_.push_back(offset);
  }

  const Tokenizer& tokenizer_;
  const bool top_;
  Json tokens_ = Json::array(), logprobs_ = Json::array(),
       tops_ = Json::array(), offsets_ = Json::array();
};

void append_lists(Json& whole, const Json& part) {
  if (part.is_null()) return;
  if (whole.is_null()) {
    whole = part;
    return;
  }
  for (const auto& [name, list] : part.items()) {
    for (const Json& value : list) whole[name].push_back(value);
  }
}

}  // namespace

CompletionWriter::CompletionWriter(AnswerHead head, const Tokenizer& tokenizer,
                                   CompletionRequest request)
    : Writer(std::move(head), kObject, request.generation.include_usage),
      tokenizer_(tokenizer),
      request_(std::move(request)),
      choices_(request_.prompts.size() * request_.best_of),
      scorings_(request_.prompts.size()) {}

std::vector<Json> CompletionWriter::write(int choice, const Event& event) {
  std::vector<Json> out;
  Scoring& scoring = scorings_[choice / request_.best_of];
  if (const auto* scores = std::get_if<PromptScores>(&event)) {
    scoring.done = true;
    scoring.logprobs = prompt_logprobs(prompt_of(choice), *scores);
  } else if (request_.scores_prompts() && !scoring.done) {
    scoring.waiting.emplace_back(choice, event);
    return out;
  }
  write_one(choice, event, out);
  for (const auto& [of, waiting] : std::exchange(scoring.waiting, {})) {
    write_one(of, waiting, out);
  }
  return out;
}

void CompletionWriter::write_one(int choice, const Event& event,
                                 std::vector<Json>& out) {
  if (!std::exchange(choices_[choice].begun, true) && request_.echo) {
    out.push_back(echo(choice));
  }
  if (const auto* delta = std::get_if<TextDelta>(&event)) {
    out.push_back(text(choice, *delta));
  } else if (const auto* ended = std::get_if<Ended>(&event)) {
    out.push_back(end(choice, *ended));
  }
}

Json CompletionWriter::text_chunk(int choice, std::string_view text,
                                  Json logprobs) const {
  Json json = {{"index", choice},
               {"text", text},
               {"logprobs", std::move(logprobs)},
               {"finish_reason", nullptr}};
  return chunk(Json::array({std::move(json)}));
}

Json CompletionWriter::echo(int choice) {
  const Prompt& prompt = prompt_of(choice);
  choices_[choice].echoed = count_characters(prompt.text);
  choices_[choice].scored = request_.scores_prompts();
  return text_chunk(choice, prompt.text,
                    scorings_[choice / request_.best_of].logprobs);
}

Json CompletionWriter::prompt_logprobs(const Prompt& prompt,
                                       const PromptScores& scores) const {
  LogprobLists lists(tokenizer_, request_.logprobs > 0);
  const size_t prefix = tokenizer_.prefix_ids().size();
  Detokenizer detokenizer(tokenizer_, false);
  auto score = scores.scores.begin();
  int offset = 0;
  for (size_t i = 0; i < prompt.ids.size(); ++i) {
    if (score != scores.scores.end() && score->position == int(i)) {
      lists.add((score++)->scored, offset);
    } else {
      lists.add_unscored(prompt.ids[i], offset);
    }
    const bool shown = i >= prefix || !tokenizer_.is_special(prompt.ids[i]);
    if (shown) offset += count_characters(detokenizer.push(prompt.ids[i]));
  }
  return std::move(lists).json();
}

Json CompletionWriter::text(int choice, const TextDelta& delta) {
  return text_chunk(choice, delta.text, logprobs_of(choice, delta.tokens));
}

Json CompletionWriter::logprobs_of(int choice,
                                   const std::vector<TokenScore>& tokens) {
  if (request_.logprobs < 0) return nullptr;
  choices_[choice].scored = true;
  LogprobLists lists(tokenizer_, request_.logprobs > 0);
  for (const TokenScore& token : tokens) {
    lists.add(token.sampled, choices_[choice].echoed + token.offset);
  }
  return std::move(lists).json();
}

// An answer without text has its logprobs, which are none, in the last chunk.
Json CompletionWriter::end(int choice, const Ended& ended) {
  usage_.add(ended, choice % request_.best_of == 0);
  Json json = text_chunk(
      choice, "", choices_[choice].scored ? Json() : logprobs_of(choice, {}));
  Json& fields = json["choices"][0];
  fields["finish_reason"] = finish_reason(ended);
  if (ended.stop) fields["stop_reason"] = *ended.stop;
  if (compares()) fields["mean_logprob"] = ended.mean_logprob;
  return json;
}

CompletionFold::CompletionFold(int best_of, int kept)
    : Fold(kObject), best_of_(best_of), kept_(kept) {}

bool CompletionFold::merge(Json& choice, const std::string& name,
                           const Json& value) {
  if (name == "text") {
    choice[name].get_ref<std::string&>() +=
        value.get_ref<const std::string&>();
  } else if (name == "logprobs") {
    append_lists(choice[name], value);
  } else {
    return false;
  }
  return true;
}

Json CompletionFold::whole() {
  if (best_of_ == kept_) return std::move(whole_);
  auto& all = whole_["choices"].get_ref<Json::array_t&>();
  Json kept = Json::array();
  for (auto group = all.begin(); group != all.end(); group += best_of_) {
    std::stable_sort(group, group + best_of_, [](const Json& a, const Json& b) {
      return a.at("mean_logprob") > b.at("mean_logprob");
    });
    for (auto it = group; it != group + kept_; ++it) {
      it->erase("mean_logprob");
      (*it)["index"] = kept.size();
      kept.push_back(std::move(*it));
    }
  }
  whole_["choices"] = std::move(kept);
  return std::move(whole_);
}

Json CompletionFold::empty_choice(size_t index) const {
  return {{"index", index},
          {"text", ""},
          {"logprobs", nullptr},
          {"finish_reason", nullptr}};
}

}  // namespace quern
