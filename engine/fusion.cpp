#include "engine/fusion.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <set>

namespace backbeat {

std::vector<NodeId> FusionGroup::nodes() const {
  std::vector<NodeId> all;
  if (head >= 0) all.push_back(head);
  all.insert(all.end(), chain.begin(), chain.end());
  all.insert(all.end(), reductions.begin(), reductions.end());
  std::sort(all.begin(), all.end());
  return all;
}

bool is_folded(const Fusion& fusion, NodeId node) {
  return std::binary_search(fusion.folded.begin(), fusion.folded.end(), node);
}

namespace {

class Fuser {
 public:
  Fuser(const Program& program, bool fuse) : program_(program), tape_(program.tape), fuse_(fuse) {}

  Fusion run() {
    find_live();
    find_folded();
    for (NodeId id = 0; id < tape_.size(); ++id)
      if (fusion_.live[at(id)] && !is_leaf(id) && !folded_[at(id)]) place(id);
    finish();
    return std::move(fusion_);
  }

 private:
  struct Draft {
    FusionGroup group;            // its chain, operands and outputs are set at the end
    std::vector<NodeId> members;  // head, chain and reductions
    int32_t level = 0;  // above that of every group it reads
    bool open = false;  // elementwise nodes of its shape may join
    bool gone = false;  // merged into another
  };
  // One side of the search in `waits_for`.
  struct Front {
    std::vector<std::pair<int32_t, int32_t>> heap;  // groups to look at, by level: the one farthest along first
    std::vector<int32_t> met;                       // by group: the last search that met it
    int64_t looked = 0;                             // at operands or readers, in this search
  };
  static constexpr size_t most_members = 256;
  // Operands and readers that one search may look at. Beyond, a group counts as dependent and the two stay apart: so the
  // price of a long program is bounded. A search looks at no operand twice from one side, so that programs of up to half
  // as many operands are fused as if there were no bound; longer ones differ only where far-apart groups are entangled.
  static constexpr int64_t farthest = 1 << 13;

  static size_t at(NodeId id) { return static_cast<size_t>(id); }
  bool is_leaf(NodeId id) const {
    const Op op = tape_[id].op;
    return op == Op::input || op == Op::constant || op == Op::iota;
  }
  Draft& draft(int32_t g) { return drafts_[static_cast<size_t>(g)]; }

  void find_live() {
    fusion_.live.assign(at(tape_.size()), false);
    root_.assign(at(tape_.size()), false);
    for (NodeId id : program_.roots()) root_[at(id)] = fusion_.live[at(id)] = true;
    for (NodeId id = tape_.size() - 1; id >= 0; --id)
      if (fusion_.live[at(id)])
        for (NodeId operand : tape_[id].operands) fusion_.live[at(operand)] = true;
    group_of_.assign(at(tape_.size()), -1);
  }

  void find_folded() {
    folded_.assign(at(tape_.size()), false);
    for (NodeId id = 0; id < tape_.size(); ++id) {
      const Node& node = tape_[id];
      if (!fusion_.live[at(id)]) continue;
      if (node.op == Op::broadcast_in_dim && !root_[at(id)])
        folded_[at(id)] = fuse_ || element_count(tape_[node.operands[0]].shape) == 1;
      const bool sees_through = is_elementwise(node.op) || (node.op == Op::reduce && fuse_);
      for (NodeId operand : node.operands) folded_[at(operand)] = folded_[at(operand)] && sees_through;
    }
    readers_.resize(at(tape_.size()));
    for (NodeId id = 0; id < tape_.size(); ++id)
      if (folded_[at(id)]) fusion_.folded.push_back(id);
      else if (fusion_.live[at(id)])
        for (NodeId operand : tape_[id].operands) readers_[at(source(operand))].push_back(id);
  }

  // Through folded broadcasts, to the node that is really read.
  NodeId source(NodeId id) const {
    while (folded_[at(id)]) id = tape_[id].operands[0];
    return id;
  }

  // Calls visit(h) for each other group whose nodes group g reads until it says true; counts in `looked`.
  template <class Visit>
  bool any_read(int32_t g, int64_t& looked, Visit visit) {
    for (NodeId id : draft(g).members)
      for (NodeId operand : tape_[id].operands) {
        ++looked;
        const int32_t h = group_of_[at(source(operand))];
        if (h >= 0 && h != g && visit(h)) return true;
      }
    return false;
  }

  // The same for each other group that reads nodes of g.
  template <class Visit>
  bool any_reader(int32_t g, int64_t& looked, Visit visit) {
    for (NodeId id : draft(g).members)
      for (NodeId reader : readers_[at(id)]) {
        const int32_t h = group_of_[at(reader)];
        if (h < 0) break;  // not yet placed, nor are the later ones
        ++looked;
        if (h != g && visit(h)) return true;
      }
    return false;
  }

  // Lifts g to this level, and what reads it, directly or not, above that.
  void raise(int32_t g, int32_t level) {
    if (draft(g).level >= level) return;
    draft(g).level = level;
    int64_t looked = 0;
    for (std::vector<int32_t> risen{g}; !risen.empty();) {
      const int32_t low = risen.back();
      risen.pop_back();
      any_reader(low, looked, [&](int32_t h) {
        if (draft(h).level <= draft(low).level) {
          draft(h).level = draft(low).level + 1;
          risen.push_back(h);
        }
        return false;
      });
    }
  }

  // Must group `late` run after group `early`, directly or through others? Searches from both ends, through the levels
  // between them; what is met first is what reaches farthest, as a backward pass that reads the forward pass does.
  bool waits_for(int32_t late, int32_t early) {
    const int32_t low = draft(early).level;
    const int32_t high = draft(late).level;
    if (high <= low) return false;
    ++search_;
    auto& [down, up] = front_;
    const auto meet = [&](Front& front, const Front& other, int32_t g, int32_t priority) {
      int32_t& met = front.met[static_cast<size_t>(g)];
      if (met == search_) return false;
      met = search_;
      front.heap.emplace_back(priority, g);
      std::push_heap(front.heap.begin(), front.heap.end());
      return other.met[static_cast<size_t>(g)] == search_;
    };
    const auto next = [](Front& front) {
      std::pop_heap(front.heap.begin(), front.heap.end());
      const int32_t g = front.heap.back().second;
      front.heap.pop_back();
      return g;
    };
    for (Front& front : front_) front.heap.clear(), front.looked = 0;
    meet(down, up, late, -high);
    meet(up, down, early, low);
    while (!down.heap.empty() && !up.heap.empty()) {
      if (down.looked + up.looked > farthest) return true;
      if (down.looked <= up.looked) {
        const auto visit = [&](int32_t h) {
          return (h == early || draft(h).level > low) && meet(down, up, h, -draft(h).level);
        };
        if (any_read(next(down), down.looked, visit)) return true;
      } else {
        const auto visit = [&](int32_t h) {
          return (h == late || draft(h).level < high) && meet(up, down, h, draft(h).level);
        };
        if (any_reader(next(up), up.looked, visit)) return true;
      }
    }
    return false;
  }

  // May elementwise node `id` be computed in group g? Nothing it reads from elsewhere may wait for g.
  bool fits(int32_t g, NodeId id) {
    const Draft& d = draft(g);
    if (!d.open || d.group.shape != tape_[id].shape || d.members.size() >= most_members) return false;
    for (NodeId operand : tape_[id].operands) {
      const NodeId from = source(operand);
      const int32_t h = group_of_[at(from)];
      if (h < 0) continue;
      if (h == g) {
        const bool same_place = from == operand && tape_[from].op != Op::reduce;
        if (!same_place) return false;
      } else if (waits_for(h, g)) {
        return false;
      }
    }
    return true;
  }

  void merge(int32_t into, int32_t from) {
    Draft& a = draft(into);
    Draft& b = draft(from);
    if (b.group.head >= 0) a.group.head = b.group.head;
    a.group.reductions.insert(a.group.reductions.end(), b.group.reductions.begin(), b.group.reductions.end());
    a.members.insert(a.members.end(), b.members.begin(), b.members.end());
    const int32_t level = std::max(a.level, b.level);
    for (NodeId id : b.members) group_of_[at(id)] = into;
    b = Draft{};
    b.gone = true;
    a.level = -1;  // whatever reads either is to be above both
    raise(into, level);
  }

  bool can_merge(int32_t a, int32_t b) {
    const Draft& x = draft(a);
    const Draft& y = draft(b);
    if (!x.open || !y.open || x.group.shape != y.group.shape) return false;
    if (x.members.size() + y.members.size() > most_members) return false;
    const bool heads = x.group.head >= 0 || y.group.head >= 0;
    if (x.group.head >= 0 && y.group.head >= 0) return false;
    if (heads && (!x.group.reductions.empty() || !y.group.reductions.empty())) return false;
    if (!x.group.reductions.empty() && !y.group.reductions.empty() && axes(x) != axes(y)) return false;
    return !waits_for(a, b) && !waits_for(b, a);
  }

  const Dims& axes(const Draft& d) const {
    return std::get<ReduceDims>(tape_[d.group.reductions[0]].attributes).axes;
  }

  void place(NodeId id) {
    const Node& node = tape_[id];
    int32_t g = -1;
    if (is_elementwise(node.op) && fuse_) {
      std::set<int32_t, std::greater<>> candidates;  // the latest group first
      for (NodeId operand : node.operands) {
        const int32_t h = group_of_[at(operand)];
        if (h >= 0 && !folded_[at(operand)]) candidates.insert(h);
      }
      for (int32_t h : candidates)
        if (fits(h, id)) {
          g = h;
          break;
        }
      if (g >= 0)
        for (int32_t h : candidates)
          if (h != g && can_merge(g, h)) {
            // Only if the node, too, may live in the merged group.
            bool safe = true;
            for (NodeId operand : node.operands) {
              const NodeId from = source(operand);
              const int32_t o = group_of_[at(from)];
              if (o == h && (from != operand || tape_[from].op == Op::reduce)) safe = false;
              if (o >= 0 && o != h && o != g && waits_for(o, h)) safe = false;
            }
            if (safe) merge(g, h);
          }
    } else if (node.op == Op::reduce && fuse_) {
      const int32_t h = group_of_[at(node.operands[0])];
      if (h >= 0 && !folded_[at(node.operands[0])]) {
        const Draft& d = draft(h);
        const bool member = d.open && d.group.head < 0 && tape_[node.operands[0]].op != Op::reduce;
        if (member && (d.group.reductions.empty() || axes(d) == std::get<ReduceDims>(node.attributes).axes)) g = h;
      }
    }
    if (g < 0) {
      g = static_cast<int32_t>(drafts_.size());
      Draft& d = drafts_.emplace_back();
      for (Front& front : front_) front.met.push_back(0);
      d.group.shape = node.op == Op::reduce ? tape_[node.operands[0]].shape : node.shape;
      if (is_elementwise(node.op)) {
        d.open = fuse_;
      } else if (node.op != Op::reduce) {
        d.group.head = id;
        d.open = fuse_ && (node.op == Op::dot_general || node.op == Op::convolution);
      }
    }
    Draft& d = draft(g);
    if (node.op == Op::reduce) d.group.reductions.push_back(id);
    d.members.push_back(id);
    group_of_[at(id)] = g;
    for (NodeId operand : node.operands) {
      const int32_t h = group_of_[at(source(operand))];
      if (h >= 0 && h != g) raise(g, draft(h).level + 1);
    }
  }

  void finish() {
    for (size_t g = 0; g < drafts_.size(); ++g) {
      if (drafts_[g].gone) continue;
      FusionGroup& group = drafts_[g].group;
      std::sort(group.reductions.begin(), group.reductions.end());
      std::vector<NodeId>& members = drafts_[g].members;
      std::sort(members.begin(), members.end());
      const auto elsewhere = [&](NodeId id) { return group_of_[at(id)] != static_cast<int32_t>(g); };
      std::set<NodeId> operands;
      for (NodeId id : members) {
        if (is_elementwise(tape_[id].op)) group.chain.push_back(id);
        for (NodeId operand : tape_[id].operands)
          if (elsewhere(source(operand))) operands.insert(source(operand));
        const std::vector<NodeId>& readers = readers_[at(id)];
        if (root_[at(id)] || std::any_of(readers.begin(), readers.end(), elsewhere)) group.outputs.push_back(id);
      }
      group.operands.assign(operands.begin(), operands.end());
    }
    // Earliest last node first, among those whose operands are there.
    std::vector<int32_t> waiting(drafts_.size(), 0);
    std::vector<std::vector<int32_t>> after(drafts_.size());
    for (size_t g = 0; g < drafts_.size(); ++g) {
      if (drafts_[g].gone) continue;
      std::set<int32_t> before;
      for (NodeId id : drafts_[g].group.operands)
        if (group_of_[at(id)] >= 0) before.insert(group_of_[at(id)]);
      waiting[g] = static_cast<int32_t>(before.size());
      for (int32_t b : before) after[static_cast<size_t>(b)].push_back(static_cast<int32_t>(g));
    }
    using Entry = std::pair<NodeId, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto last = [&](size_t g) { return drafts_[g].members.back(); };
    for (size_t g = 0; g < drafts_.size(); ++g)
      if (!drafts_[g].gone && waiting[g] == 0) ready.push({last(g), static_cast<int32_t>(g)});
    while (!ready.empty()) {
      const auto g = static_cast<size_t>(ready.top().second);
      ready.pop();
      for (int32_t a : after[g])
        if (--waiting[static_cast<size_t>(a)] == 0) ready.push({last(static_cast<size_t>(a)), a});
      fusion_.groups.push_back(std::move(drafts_[g].group));
    }
  }

  const Program& program_;
  const Tape& tape_;
  bool fuse_;
  Fusion fusion_;
  std::vector<std::vector<NodeId>> readers_;  // by node, folded broadcasts seen through; ascending
  std::vector<bool> root_, folded_;
  std::vector<int32_t> group_of_;
  std::vector<Draft> drafts_;
  std::array<Front, 2> front_;
  int32_t search_ = 0;
};

}  // namespace

Fusion fusion_groups(const Program& program, bool fuse) { return Fuser(program, fuse).run(); }

}  // namespace backbeat
