// The JSON of a Cost. Stable: docs/json.md describes every key.
#include <nlohmann/json.hpp>

#include "report/anatomy.hpp"

namespace backbeat {

namespace {

using Json = nlohmann::ordered_json;

Json shape_json(const Shape& shape) {
  Json out = Json::array();
  for (int64_t d : shape) out.push_back(d);
  return out;
}

template <class Map>
Json map_json(const Map& map) {
  Json out = Json::object();
  for (const auto& [key, value] : map) out[key] = value;
  return out;
}

Json rows_json(const char* key, const std::vector<CostRow>& rows) {
  Json out = Json::array();
  for (const CostRow& row : rows) {
    Json r;
    if (std::string_view(key) == "order" && row.key != "launch") r[key] = std::stoi(row.key);
    else r[key] = row.key;
    r["nodes"] = row.nodes;
    r["cycles"] = row.cycles;
    r["removal_cycles"] = row.removal_cycles;
    r["flops"] = row.flops;
    r["flops_padded"] = row.flops_padded;
    r["bytes"] = map_json(row.bytes);
    r["stalls"] = map_json(row.stalls);
    r["bound_by"] = map_json(row.bound_by);
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace

Json anatomy_json(const Cost& cost, const AnatomyTitle& title) {
  Json out;
  out["program"] = cost.program;
  out["model"] = title.model;
  out["step"] = title.step;
  out["device"] = cost.device;
  out["chip"] = cost.chip.empty() ? Json() : Json(cost.chip);
  out["replicas"] = 1;
  out["batch"] = title.batch;
  out["precision"] = cost.precision;
  out["clock_hz"] = cost.clock_hz;
  out["cycles"] = cost.cycles;
  out["seconds"] = cost.seconds();
  out["launch_cycles"] = cost.launch_cycles;
  out["without_penalty_cycles"] = title.without_penalty ? Json(*title.without_penalty) : Json();
  out["by_phase"] = rows_json("phase", cost.by_phase);
  out["by_order"] = rows_json("order", cost.by_order);
  out["by_scope"] = rows_json("scope", cost.by_scope);
  out["by_op"] = rows_json("op", cost.by_op);
  out["by_engine"] = Json::array();
  for (const EngineCost& e : cost.engines)
    out["by_engine"].push_back({{"engine", e.engine}, {"busy_cycles", e.busy}, {"stalled_cycles", e.stalled}, {"idle_cycles", e.idle}});
  out["nodes"] = Json::array();
  for (const NodeCost& n : cost.nodes) {
    out["nodes"].push_back({{"id", n.id}, {"op", n.id < 0 ? "launch" : std::string(name_of(n.op))}, {"order", n.order},
                            {"phase", n.id < 0 ? "launch" : std::string(name_of(n.phase))}, {"scope", n.scope},
                            {"dtype", name_of(n.dtype)}, {"shape", shape_json(n.shape)}, {"cycles", n.cycles}, {"flops", n.flops},
                            {"flops_padded", n.flops_padded}, {"bytes", map_json(n.bytes)}, {"busy", map_json(n.busy)},
                            {"stalls", map_json(n.stalls)}, {"bound_by", n.bound_by}});
  }
  out["memory"] = {{"hbm_peak_bytes", cost.memory.hbm_peak_bytes}, {"vmem_peak_bytes", cost.memory.vmem_peak_bytes},
                   {"by_origin", map_json(cost.memory.by_origin)}};
  return out;
}

}  // namespace backbeat
