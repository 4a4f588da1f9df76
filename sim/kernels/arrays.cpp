// Windows, scans, sorts and computed places: one kernel, whose work is cut evenly over its steps.
#include <algorithm>
#include <cmath>

#include "sim/kernels/kernels.hpp"

namespace backbeat::sim {

Kernel array_kernel(const ArraySpecs& spec, const ArrayBlock& block, const Chip& chip) {
  const int64_t sublanes = chip.vpu.sublanes, lanes = chip.vpu.lanes, steps = block.steps;
  Kernel k(spec.name, {block.passes, steps});
  const auto ref = [&](const std::string& name, RefSpec::Role role, const ArraySpecs::Operand& o,
                       ArraySpecs::Place place) {
    const ArraySpec array{o.dtype, {o.vregs, sublanes, lanes}};
    if (place == ArraySpecs::stays) return k.staying(name, role, array);
    // Rows that are added come pass by pass, all else step by step.
    const int axis = place == ArraySpecs::whole && spec.adds ? 0 : 1;
    const int64_t length = axis == 0 ? block.passes : steps;
    const int64_t part = place == ArraySpecs::whole && axis == 1 ? o.vregs : (o.vregs + length - 1) / length;
    const int64_t blocks = (o.vregs + part - 1) / part;
    // What has fewer registers than the grid has steps keeps its block for several of them.
    const IndexMap map = [=](const Dims& grid) { return Dims{grid[axis] * blocks / length}; };
    const Dims shape{part, sublanes, lanes};
    return role == RefSpec::output ? k.out(name, array, shape, map) : k.in(name, array, shape, map);
  };
  std::vector<Ref> inputs, outputs, operands;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const bool stays = block.rows_stay && static_cast<int>(i) == spec.rows_from;
    inputs.push_back(
        ref(concat("in", i), RefSpec::input, spec.inputs[i], stays ? ArraySpecs::stays : spec.inputs[i].place));
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i)
    outputs.push_back(ref(concat("out", i), RefSpec::output, spec.outputs[i], spec.outputs[i].place));
  for (int i : spec.operands) operands.push_back(inputs[static_cast<size_t>(i)]);

  const double share = 1.0 / static_cast<double>(steps * block.passes);
  ArrayWork work = spec.work;
  for (double ArrayWork::*amount : {&ArrayWork::slots, &ArrayWork::lane_turns, &ArrayWork::sublane_turns,
                                    &ArrayWork::loads, &ArrayWork::stores, &ArrayWork::loop, &ArrayWork::in_sequence})
    work.*amount = (work.*amount + (steps > 1 ? spec.cut.*amount : 0)) * share;
  if (steps > spec.pieces && spec.carried_vregs > 0) {
    k.scratch("carried", {spec.inputs[0].dtype, {spec.carried_vregs, sublanes, lanes}});
    work.loads += static_cast<double>(spec.carried_vregs), work.stores += static_cast<double>(spec.carried_vregs);
  }
  const bool moves = spec.rows_from >= 0 && (!spec.adds || block.rows_stay);
  RowWork rows = spec.rows;
  rows.rows *= share, rows.addresses *= share;
  rows.addresses += spec.step_addresses;
  const Ref out = outputs[0];
  if (moves) work.landed = out;
  if (moves && spec.adds) {  // beside the block that they are added to
    const auto room = static_cast<int64_t>(std::ceil(rows.rows * rows.vregs));
    work.landed = k.scratch("landed", {DType::f32, {std::max<int64_t>(1, room), sublanes, lanes}});
  }
  const Ref from = moves ? inputs[static_cast<size_t>(spec.rows_from)] : Ref{};
  k.collapse();
  k.body([=](Step& s) {
    if (moves) s.rows(work.landed, from, rows);
    s.array(out, operands, work);
  });
  return k;
}

}  // namespace backbeat::sim
