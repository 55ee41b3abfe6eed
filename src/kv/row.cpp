#include "kv/row.h"

#include <algorithm>

namespace quern {

size_t Row::bytes() const {
  size_t sum = 0;
  for (const auto& layer : layers_) sum += layer->bytes();
  return sum;
}

size_t Row::bytes_at(int tokens) const {
  size_t sum = 0, largest = 0;
  for (const auto& layer : layers_) {
    const size_t bytes = layer->bytes_at(tokens);
    if (bytes == SIZE_MAX) return SIZE_MAX;
    sum += bytes;
    largest = std::max(largest, bytes);
  }
  return sum + largest;
}

void Row::make_room(int more, int most) {
  const int needed = length() + more;
  const int ahead = std::min(std::max(needed, grown(length())), most);
  for (const auto& layer : layers_) {
    if (layer->room() < more) layer->reserve(std::max(needed, ahead));
  }
}

bool Row::trim(int tokens) {
  for (const auto& layer : layers_) {
    if (tokens < 0 || tokens > layer->trimmable()) return false;
  }
  for (const auto& layer : layers_) layer->trim(tokens);
  return true;
}

Row Row::copy() const {
  std::vector<std::unique_ptr<LayerState>> twins;
  for (const auto& layer : layers_) twins.push_back(layer->copy());
  return Row(std::move(twins));
}

std::vector<std::string> Row::signatures() const {
  std::vector<std::string> layers;
  for (const auto& layer : layers_) layers.push_back(layer->signature());
  return layers;
}

std::map<std::string, int> counts_of(const std::vector<std::string>& layers) {
  std::map<std::string, int> counts;
  for (const std::string& signature : layers) counts[signature]++;
  return counts;
}

}  // namespace quern
