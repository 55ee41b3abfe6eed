#include "api/generation_fields.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/str.h"

namespace quern {
namespace {

// Any whole number is a seed; -1 and no seed give a random one.
std::optional<uint64_t> read_seed(const Fields& fields) {
  const Json* value = fields.find("seed");
  if (!value) return {};
  if (!is_whole(*value)) fields.refuse_type("seed", "int", *value);
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (std::abs(number) >= 0x1p63) return std::bit_cast<uint64_t>(number);
  }
  const auto seed = value->get<int64_t>();
  if (seed == -1) return {};
  return uint64_t(seed);
}

class BiasReader {
 public:
  BiasReader(const Fields& fields, const ServedModel& served)
      : fields_(fields), served_(served) {}

  // {"id": bias} or [[id or text, bias]]; a text stands for its tokens, false
  // for a ban.
  std::map<int32_t, float> read(const Json& value) {
    if (value.is_object()) {
      for (const auto& [id, bias] : value.items()) add(parse_id(id), bias);
    } else if (value.is_array()) {
      for (const Json& pair : value) add_pair(pair);
    } else {
      refuse_form(value);
    }
    refuse_ban_of_all();
    return std::move(biases_);
  }

 private:
  [[noreturn]] void refuse_form(const Json& value) const {
    refuse(fields_.path(kName), "{} must be a dict of int to float, got {}",
           fields_.path(kName), brief(value));
  }

  int32_t parse_id(const std::string& text) const {
    int32_t id = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, id);
    if (error != std::errc() || stop != end) refuse_form(text);
    return id;
  }

  void add_pair(const Json& pair) {
    if (!pair.is_array() || pair.size() != 2) refuse_form(pair);
    if (is_whole(pair[0])) {
      const double id = pair[0].get<double>();
      return add(id >= 0 && id <= INT32_MAX ? int32_t(id) : -1, pair[1]);
    }
    if (!pair[0].is_string()) refuse_form(pair);
    const auto& text = pair[0].get_ref<const std::string&>();
    if (text.size() > kMaxBiasBytes) {
      refuse(fields_.path(kName), "{}: a text has at most {} bytes, got {}",
             fields_.path(kName), kMaxBiasBytes, text.size());
    }
    const auto ids = served_.tokenizer.encode(text, {.add_special = false});
    if (!ids) refuse_form(pair);
    for (int32_t id : *ids) add(id, pair[1]);
  }

  void add(int32_t id, const Json& bias) {
    if (++count_ > kMaxBiases) {
      refuse(fields_.path(kName), "{}: at most {} tokens", fields_.path(kName),
             kMaxBiases);
    }
    const int vocabulary = served_.model->facts().vocabulary;
    if (id < 0 || id >= vocabulary) {
      refuse(fields_.path(kName),
             "{}: a token id must be in [0, {}], that is in the vocabulary",
             fields_.path(kName), vocabulary - 1);
    }
    if (bias == false) {
      biases_[id] = kBanBias;
      return;
    }
    if (!bias.is_number()) refuse_form(bias);
    const double value = bias.get<double>();
    if (value < -1000 || value > 1000) {
      refuse(fields_.path(kName), "{}: a bias must be in [-1000, 1000], got {}",
             fields_.path(kName), brief(bias));
    }
    biases_[id] = float(value);
  }

  void refuse_ban_of_all() const {
    const auto is_ban = [](const auto& bias) {
      return bias.second <= kBanBias;
    };
    if (std::count_if(biases_.begin(), biases_.end(), is_ban) ==
        served_.model->facts().vocabulary) {
      refuse(fields_.path(kName), "{}: every token is banned",
             fields_.path(kName));
    }
  }

  static constexpr const char* kName = "logit_bias";
  const Fields& fields_;
  const ServedModel& served_;
  std::map<int32_t, float> biases_;
  int count_ = 0;  // of tokens, also equal ones
};

void set(float& parameter, std::optional<float> value) {
  if (value) parameter = *value;
}

void set(int& parameter, std::optional<int> value) {
  if (value) parameter = *value;
}

// The ranges are those of sample/params.h.
SamplingParams read_sampling(const Fields& f, const ServedModel& served) {
  SamplingParams p = served.defaults.sampling;
  set(p.temperature, f.number("temperature", 0, 5));
  set(p.top_p, f.number("top_p", 0, 1));
  set(p.top_k, f.integer("top_k", -1));
  set(p.min_p, f.number("min_p", 0, 1));
  set(p.xtc_probability, f.number("xtc_probability", 0, 1));
  set(p.xtc_threshold, f.number("xtc_threshold", 0, 0.5f));
  set(p.repetition_penalty, f.number("repeat_penalty", 0.01f, 100));
  set(p.repetition_penalty, f.number("repetition_penalty", 0.01f, 100));
  set(p.repetition_context, f.integer("repetition_context_size", 0));
  set(p.presence_penalty, f.number("presence_penalty", -100, 100));
  set(p.presence_context, f.integer("presence_context_size", 0));
  set(p.frequency_penalty, f.number("frequency_penalty", -100, 100));
  set(p.frequency_context, f.integer("frequency_context_size", 0));
  if (const Json* bias = f.find("logit_bias")) {
    p.logit_bias = BiasReader(f, served).read(*bias);
  }
  if (f.find("seed")) p.seed = read_seed(f);
  return p;
}

std::vector<std::string> read_stops(const Fields& fields) {
  const Json* value = fields.find("stop");
  if (!value) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > size_t(kMaxStops)) {
    refuse("stop", "stop: at most {} strings, got {}", kMaxStops, list.size());
  }
  std::vector<std::string> stops;
  for (const Json& stop : list) {
    if (!stop.is_string()) {
      refuse("stop", "stop must be a string or a list of strings, got {}",
             brief(*value));
    }
    stops.push_back(stop.get<std::string>());
    if (stops.back().size() > kMaxStopBytes) {
      refuse("stop", "stop: a string has at most {} bytes, got {}",
             kMaxStopBytes, stops.back().size());
    }
  }
  return stops;
}

// -1 is no limit, as is an absent value; the engine cuts what is beyond the
// context.
int read_max_tokens(const Fields& fields, const ServedModel& served) {
  int most = served.defaults.max_tokens.value_or(-1);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const auto given = fields.whole(name, -1);
    if (given) most = int(std::min(*given, double(INT_MAX)));
  }
  return most;
}

// What many clients send for "none".
bool is_none(const Json& value) {
  return value.empty() || value == "" || value == false || value == "none";
}

}  // namespace

GenerationFields read_generation(const Fields& fields,
                                 const ServedModel& served) {
  GenerationFields g;
  g.model = fields.string("model").value_or(served.id);
  g.sampling = read_sampling(fields, served);
  g.max_tokens = read_max_tokens(fields, served);
  g.choices = fields.integer("n", 1, kMaxChoices).value_or(1);
  g.stops = read_stops(fields);
  g.ignore_end = fields.boolean("ignore_eos").value_or(false);
  g.stream = fields.boolean("stream").value_or(false);
  if (const Json* options = fields.object("stream_options")) {
    g.include_usage = Fields(*options, "stream_options")
                          .boolean("include_usage")
                          .value_or(false);
  }
  return g;
}

void refuse_unsupported(const Fields& fields) {
  if (const Json* format = fields.find("response_format");
      format && !is_none(*format)) {
    const auto type = Fields(*format, "response_format").string("type");
    if (type != "text") {
      refuse("response_format",
             "response_format: {} is not supported yet, only text",
             type ? in_quotes(*type) : "an object without type");
    }
  }
  for (const char* name : {"guided_grammar", "guided_regex", "guided_choice",
                           "guided_json", "structured_outputs", "grammar",
                           "json_schema", "functions", "adapter", "hlg"}) {
    const Json* value = fields.find(name);
    if (value && !is_none(*value)) {
      refuse(name, "{} is not supported yet", name);
    }
  }
}

void refuse_many_logprobs(const GenerationFields& fields,
                          const ServedModel& served, size_t choices, int top,
                          size_t echoed) {
  if (top < 0 || fields.stream || choices < 2) return;
  const int context = served.engine ? served.engine->longest_row()
                                    : served.model->facts().context;
  const int most =
      fields.max_tokens < 0 ? context : std::min(fields.max_tokens, context);
  const int64_t tokens = int64_t(choices) * most + int64_t(echoed);
  if (tokens * (top + 1) <= kMaxLogprobs) return;
  refuse("logprobs",
         "logprobs: {} choices of up to {} tokens may have too many "
         "log-probabilities: lower max_tokens or stream",
         choices, most);
}

Request make_request(const GenerationFields& fields, const ServedModel& served,
                     std::vector<int32_t> prompt, int index) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = fields.max_tokens;
  if (!fields.ignore_end) request.end_ids = served.tokenizer.end_ids();
  request.sampling = fields.sampling;
  if (request.sampling.seed) *request.sampling.seed += index;
  return request;
}

}  // namespace quern
