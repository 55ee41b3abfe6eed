#include "nn/rope.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/str.h"

namespace quern {
namespace {

using Freqs = std::vector<double>;

// A number of the scaling object.
double number(const Config& config, const Json& scaling, const char* key,
              std::optional<double> otherwise = {}) {
  const auto it = scaling.find(key);
  if (it == scaling.end() || it->is_null()) {
    if (otherwise) return *otherwise;
    config.refuse(fmt::format("rope_scaling.{} is missing", key));
  }
  if (!it->is_number() || !std::isfinite(it->get<double>())) {
    config.refuse(fmt::format("rope_scaling.{} must be a number", key));
  }
  return it->get<double>();
}

double positive(const Config& config, const Json& scaling, const char* key,
                std::optional<double> otherwise = {}) {
  const double value = number(config, scaling, key, otherwise);
  if (!(value > 0)) {
    config.refuse(fmt::format("rope_scaling.{} must be above 0", key));
  }
  return value;
}

// Llama 3.1: long waves are stretched, short ones kept, those between blended.
void scale_llama3(const Config& config, const Json& s, Freqs& freqs) {
  const double factor = positive(config, s, "factor");
  const double low = positive(config, s, "low_freq_factor", 1);
  const double high = positive(config, s, "high_freq_factor", 4);
  const double length =
      positive(config, s, "original_max_position_embeddings", 8192);
  if (high <= low) {
    config.refuse(
        "rope_scaling.high_freq_factor must be above low_freq_factor");
  }
  for (double& f : freqs) {
    const double wave = 2 * std::numbers::pi / f;
    if (wave > length / low) {
      f /= factor;
    } else if (wave > length / high) {
      const double smooth = (length / wave - low) / (high - low);
      f *= (1 - smooth) / factor + smooth;
    }
  }
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// YaRN (Peng et al., 2023). Returns the factor of cosine and sine.
double scale_yarn(const Config& config, const Json& s, double theta,
                  Freqs& freqs) {
  const double factor = positive(config, s, "factor");
  const double length = positive(
      config, s, "original_max_position_embeddings",
      config.integer_if("max_position_embeddings", 1, 1 << 30).value_or(4096));
  const double dims = 2. * double(freqs.size());
  auto dim_of = [&](double rotations) {
    return dims * std::log(length / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double low =
      std::max(std::floor(dim_of(positive(config, s, "beta_fast", 32))), 0.);
  double high = std::min(std::ceil(dim_of(positive(config, s, "beta_slow", 1))),
                         dims - 1);
  if (high == low) high += 0.001;
  for (size_t i = 0; i < freqs.size(); i++) {
    const double ramp = std::clamp((double(i) - low) / (high - low), 0., 1.);
    freqs[i] = freqs[i] / factor * ramp + freqs[i] * (1 - ramp);
  }
  if (s.contains("attention_factor") && !s["attention_factor"].is_null()) {
    return number(config, s, "attention_factor");
  }
  return yarn_mscale(factor, number(config, s, "mscale", 1)) /
         yarn_mscale(factor, number(config, s, "mscale_all_dim", 0));
}

// The type of the scaling object; "default" if it names none.
std::string type_of(const Json& scaling) {
  for (const char* key : {"type", "rope_type"}) {
    const auto it = scaling.find(key);
    if (it != scaling.end() && it->is_string()) return it->get<std::string>();
  }
  return "default";
}

// Scales the frequencies as the object asks for. Returns the factor of cosine
// and sine.
double scale(const Config& config, const Json& scaling, double theta,
             Freqs& freqs) {
  const std::string type = type_of(scaling);
  if (type == "yarn") return scale_yarn(config, scaling, theta, freqs);
  if (type == "llama3") {
    scale_llama3(config, scaling, freqs);
  } else if (type == "linear") {
    const double factor = positive(config, scaling, "factor");
    for (double& f : freqs) f /= factor;
  } else if (type != "default") {
    config.refuse(fmt::format(
        "rope type {} is not supported (default, linear, llama3, yarn)",
        in_quotes(type)));
  }
  return 1;
}

}  // namespace

Rope::Rope(const Config& config, float default_theta, int rotary_dims,
           const Json* scaling, std::optional<mx::array> divisors)
    : inv_freq_(0.f) {
  if (scaling && !scaling->is_object()) {
    config.refuse("rope_scaling must be an object");
  }
  const double theta =
      scaling ? number(config, *scaling, "rope_theta", default_theta)
              : default_theta;
  if (!(theta > 1)) config.refuse("rope_theta must be above 1");
  Freqs freqs;
  for (int i = 0; i < rotary_dims; i += 2) {
    freqs.push_back(std::pow(theta, -double(i) / rotary_dims));
  }
  if (scaling) factor_ = float(scale(config, *scaling, theta, freqs));
  std::vector<float> rounded(freqs.begin(), freqs.end());
  inv_freq_ = mx::array(rounded.data(), {int(rounded.size())}, mx::float32);
  if (divisors) {
    if (divisors->size() != rounded.size()) {
      config.refuse(fmt::format("rope_freqs has {} numbers, expected {}",
                                divisors->size(), rounded.size()));
    }
    inv_freq_ = mx::divide(inv_freq_, *divisors);
  }
  mx::eval(inv_freq_);
}

}  // namespace quern
