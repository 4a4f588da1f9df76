#include "sim/machine.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace backbeat::sim {

std::vector<std::string> engine_names(const Chip& chip) {
  std::vector<std::string> names = {"scalar", "dma_in", "dma_out",   "hbm",       "vpu",
                                    "eup",    "xlu",    "vmem.load", "vmem.store"};
  for (int64_t i = 0; i < chip.mxu.count; ++i) {
    names.push_back(concat("mxu", i));
    names.push_back(concat("mxu", i, ".weights"));
  }
  return names;
}

std::string_view name_of(Cause cause) {
  constexpr const char* names[] = {"", "engine", "issue", "hbm", "weights", "operands", "buffers", "ports"};
  return names[static_cast<size_t>(cause)];
}

Append::Append(Stream& stream, Kind kind, Label label, int32_t kernel) : stream_(stream) {
  stream.instructions.push_back({static_cast<int32_t>(stream.parts.size()), static_cast<int32_t>(stream.reads.size()),
                                 static_cast<int32_t>(stream.writes.size()), 0, 0, 0, kind, 0, -1, label, kernel, 0});
}
Append& Append::part(Engine engine, double cycles) {
  if (cycles > 2e9) fail("machine", "an instruction of ", cycles, " cycles: cut the kernel into smaller blocks");
  stream_.parts.push_back({engine, static_cast<int32_t>(std::ceil(cycles - 1e-9))});
  ++last().parts;
  return *this;
}
Append& Append::read(Slot slot) {
  stream_.reads.push_back(slot);
  ++last().reads;
  return *this;
}
Append& Append::glance(Slot slot) {
  stream_.reads.push_back(~slot);
  ++last().reads;
  return *this;
}
Append& Append::write(Slot slot) {
  stream_.writes.push_back(slot);
  ++last().writes;
  return *this;
}
Append& Append::issued(Slot token) {
  last().issued = token;
  return *this;
}
Append& Append::latency(int64_t cycles) {
  last().latency = static_cast<int32_t>(cycles);
  return *this;
}
Append& Append::bytes(int64_t bytes) {
  last().bytes = bytes;
  return *this;
}

namespace {

int32_t scaled(int32_t cycles, double factor) {
  return factor == 1 ? cycles : static_cast<int32_t>(std::llround(static_cast<double>(cycles) * factor));
}

// The recurrence. `Books` sees each instruction after its start is known; for the bare total it is empty and
// disappears.
template <class Books>
Cycles recur(const Stream& stream, const Scaling& scaling, Books&& books) {
  std::vector<Cycles> free_at(static_cast<size_t>(stream.engines), 0);
  std::vector<Cycles> ready(static_cast<size_t>(stream.slots), 0), read_until(static_cast<size_t>(stream.slots), 0);
  const bool scale = !scaling.by_label.empty() || !scaling.by_engine.empty();
  Cycles total = 0;
  const Part* parts = stream.parts.data();
  const Slot* reads = stream.reads.data();
  const Slot* writes = stream.writes.data();
  const size_t count = stream.instructions.size();
  for (size_t n = 0; n < count; ++n) {
    const Instruction& i = stream.instructions[n];
    const Part* part = parts + i.first_part;
    Cycles start = i.issued >= 0 ? ready[static_cast<size_t>(i.issued)] : 0;
    for (int p = 0; p < i.parts; ++p) start = std::max(start, free_at[static_cast<size_t>(part[p].engine)]);
    for (int r = 0; r < i.reads; ++r) {
      const Slot s = reads[i.first_read + r];
      start = std::max(start, ready[static_cast<size_t>(s < 0 ? ~s : s)]);
    }
    for (int w = 0; w < i.writes; ++w)
      start = std::max(start, read_until[static_cast<size_t>(writes[i.first_write + w])]);

    const double by_label =
        scale && !scaling.by_label.empty() && i.label >= 0 ? scaling.by_label[static_cast<size_t>(i.label)] : 1;
    const auto occupancy = [&](int p) {
      double factor = by_label;
      if (scale && !scaling.by_engine.empty()) factor *= scaling.by_engine[static_cast<size_t>(part[p].engine)];
      return scaled(part[p].occupancy, factor);
    };
    int32_t duration = 0;
    for (int p = 0; p < i.parts; ++p) duration = std::max(duration, scale ? occupancy(p) : part[p].occupancy);
    const Cycles end = start + duration + (scale ? scaled(i.latency, by_label) : i.latency);

    books(n, i, start, duration, end, free_at, ready, read_until, occupancy);

    for (int p = 0; p < i.parts; ++p)
      free_at[static_cast<size_t>(part[p].engine)] = start + (scale ? occupancy(p) : part[p].occupancy);
    for (int r = 0; r < i.reads; ++r) {
      const Slot s = reads[i.first_read + r];
      if (s >= 0) read_until[static_cast<size_t>(s)] = std::max(read_until[static_cast<size_t>(s)], start + duration);
    }
    for (int w = 0; w < i.writes; ++w) {
      Cycles& r = ready[static_cast<size_t>(writes[i.first_write + w])];
      r = std::max(r, end);
    }
    total = std::max(total, end);
  }
  return total;
}

}  // namespace

Cycles total_cycles(const Stream& stream, const Scaling& scaling) {
  return recur(stream, scaling, [](auto&&...) {});
}

Times simulate(const Stream& stream, const Chip& chip, const Scaling& scaling) {
  Times t;
  const size_t count = stream.instructions.size();
  t.start.resize(count);
  t.end.resize(count);
  t.waited_for.assign(count, -1);
  t.cause.assign(count, Cause::none);
  t.stalled.assign(count, 0);
  for (std::string& name : engine_names(chip)) t.engines.push_back({name, 0, 0, 0});

  std::vector<int32_t> on_engine(static_cast<size_t>(stream.engines), -1);
  std::vector<int32_t> writer(static_cast<size_t>(stream.slots), -1), reader(static_cast<size_t>(stream.slots), -1);
  std::vector<Cycles> reader_until(static_cast<size_t>(stream.slots), -1),
      writer_ready(static_cast<size_t>(stream.slots), -1);

  t.total = recur(stream, scaling,
                  [&](size_t n, const Instruction& i, Cycles start, int32_t duration, Cycles end,
                      const std::vector<Cycles>& free_at, const std::vector<Cycles>& ready,
                      const std::vector<Cycles>& read_until, const auto& occupancy) {
                    const Part* part = &stream.parts[static_cast<size_t>(i.first_part)];
                    const auto at = [](const auto& v, auto index) { return v[static_cast<size_t>(index)]; };
                    t.start[n] = start;
                    t.end[n] = end;

                    // What set the start: the engine itself, an operand, the issue, a destination still in use, another
                    // engine; in this order.
                    int32_t binding = -1;
                    Cause cause = Cause::none;
                    if (start > 0) {
                      if (at(free_at, part[0].engine) == start) {
                        binding = at(on_engine, part[0].engine);
                        cause = Cause::engine;
                      }
                      for (int r = 0; r < i.reads && binding < 0; ++r) {
                        Slot s = stream.reads[static_cast<size_t>(i.first_read + r)];
                        if (s < 0) s = ~s;
                        if (at(ready, s) != start) continue;
                        binding = at(writer, s);
                        if (binding < 0) continue;
                        switch (at(stream.instructions, binding).kind) {
                          case Kind::fetch:
                          case Kind::write_back:
                            cause = Cause::hbm;
                            break;
                          case Kind::latch:
                            cause = Cause::weights;
                            break;
                          case Kind::step:
                          case Kind::wait:
                          case Kind::launch:
                            cause = Cause::issue;
                            break;
                          default:
                            cause = Cause::operands;
                        }
                      }
                      if (binding < 0 && i.issued >= 0 && at(ready, i.issued) == start) {
                        binding = at(writer, i.issued);
                        cause = Cause::issue;
                      }
                      for (int w = 0; w < i.writes && binding < 0; ++w) {
                        const Slot s = stream.writes[static_cast<size_t>(i.first_write + w)];
                        if (at(read_until, s) != start) continue;
                        binding = at(reader, s);
                        if (binding < 0) continue;
                        const Kind kind = at(stream.instructions, binding).kind;
                        cause = kind == Kind::write_back || kind == Kind::fetch ? Cause::hbm
                                : i.kind == Kind::latch                         ? Cause::weights
                                                                                : Cause::buffers;
                      }
                      for (int p = 1; p < i.parts && binding < 0; ++p)
                        if (at(free_at, part[p].engine) == start) {
                          binding = at(on_engine, part[p].engine);
                          cause = part[p].engine == hbm ? Cause::hbm : Cause::ports;
                        }
                    }
                    t.waited_for[n] = binding;
                    t.cause[n] = cause;

                    const Cycles issue = i.issued >= 0 ? at(ready, i.issued) : 0;
                    for (int p = 0; p < i.parts; ++p) {
                      EngineCost& engine = t.engines[static_cast<size_t>(part[p].engine)];
                      const Cycles free = at(free_at, part[p].engine);
                      // A step that waits for the body before it has not been asked for yet.
                      const Cycles stalled = i.kind == Kind::step ? 0 : start - std::max(free, std::min(start, issue));
                      engine.busy += occupancy(p);
                      engine.stalled += stalled;
                      if (p == 0) t.stalled[n] = stalled;
                      on_engine[static_cast<size_t>(part[p].engine)] = static_cast<int32_t>(n);
                    }
                    for (int r = 0; r < i.reads; ++r) {
                      const Slot s = stream.reads[static_cast<size_t>(i.first_read + r)];
                      if (s >= 0 && start + duration > at(reader_until, s)) {
                        reader_until[static_cast<size_t>(s)] = start + duration;
                        reader[static_cast<size_t>(s)] = static_cast<int32_t>(n);
                      }
                    }
                    for (int w = 0; w < i.writes; ++w) {
                      const Slot s = stream.writes[static_cast<size_t>(i.first_write + w)];
                      if (end > at(writer_ready, s)) {
                        writer_ready[static_cast<size_t>(s)] = end;
                        writer[static_cast<size_t>(s)] = static_cast<int32_t>(n);
                      }
                    }
                  });
  for (EngineCost& e : t.engines) e.idle = t.total - e.busy - e.stalled;
  return t;
}

std::vector<PathSegment> critical_path(const Stream& stream, const Times& t) {
  std::vector<PathSegment> path;
  if (stream.instructions.empty()) return path;
  auto last = std::max_element(t.end.begin(), t.end.end());
  int32_t n = static_cast<int32_t>(last - t.end.begin());
  Cycles until = *last;
  while (n >= 0) {
    const Cycles begin = t.start[static_cast<size_t>(n)];
    if (until > begin) path.push_back({n, begin, until});
    until = std::min(until, begin);
    n = t.waited_for[static_cast<size_t>(n)];
  }
  return path;
}

std::vector<int64_t> apportion(int64_t total, const std::vector<double>& weights) {
  std::vector<int64_t> shares(weights.size(), 0);
  double sum = 0;
  for (double w : weights) sum += w;
  if (weights.empty() || total == 0) return shares;
  std::vector<double> remainder(weights.size());
  int64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact =
        static_cast<double>(total) * (sum > 0 ? weights[i] / sum : 1.0 / static_cast<double>(weights.size()));
    shares[i] = static_cast<int64_t>(std::floor(exact));
    remainder[i] = exact - static_cast<double>(shares[i]);
    given += shares[i];
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainder[a] > remainder[b]; });
  for (size_t i = 0; given < total; i = (i + 1) % order.size(), ++given) ++shares[order[i]];
  for (size_t i = order.size(); given > total;) {
    i = i ? i - 1 : order.size() - 1;
    if (shares[order[i]] > 0) {
      --shares[order[i]];
      --given;
    }
  }
  return shares;
}

}  // namespace backbeat::sim
