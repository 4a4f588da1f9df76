#include "engine/fusion.hpp"

#include <algorithm>
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
  using Bits = std::vector<uint64_t>;
  struct Draft {
    FusionGroup group;
    Bits before;        // groups that must run earlier, directly or not
    bool open = false;  // elementwise nodes of its shape may join
    bool gone = false;  // merged into another
    int64_t members = 0;
  };
  static constexpr int64_t most_members = 256;

  static size_t at(NodeId id) { return static_cast<size_t>(id); }
  bool is_leaf(NodeId id) const {
    const Op op = tape_[id].op;
    return op == Op::input || op == Op::constant || op == Op::iota;
  }
  static bool has(const Bits& bits, int32_t g) { return bits[static_cast<size_t>(g) / 64] >> (g % 64) & 1; }
  static void put(Bits& bits, int32_t g) { bits[static_cast<size_t>(g) / 64] |= uint64_t{1} << (g % 64); }
  static void join(Bits& bits, const Bits& more) {
    for (size_t i = 0; i < bits.size(); ++i) bits[i] |= more[i];
  }

  void find_live() {
    fusion_.live.assign(at(tape_.size()), false);
    users_.resize(at(tape_.size()));
    root_.assign(at(tape_.size()), false);
    for (NodeId id : program_.roots()) root_[at(id)] = fusion_.live[at(id)] = true;
    for (NodeId id = tape_.size() - 1; id >= 0; --id) {
      if (!fusion_.live[at(id)]) continue;
      for (NodeId operand : tape_[id].operands) {
        fusion_.live[at(operand)] = true;
        users_[at(operand)].push_back(id);
      }
    }
    group_of_.assign(at(tape_.size()), -1);
    words_ = at(tape_.size()) / 64 + 1;
  }

  void find_folded() {
    folded_.assign(at(tape_.size()), false);
    for (NodeId id = 0; id < tape_.size(); ++id) {
      const Node& node = tape_[id];
      if (node.op != Op::broadcast_in_dim || !fusion_.live[at(id)] || root_[at(id)]) continue;
      if (!fuse_ && element_count(tape_[node.operands[0]].shape) != 1) continue;
      folded_[at(id)] = std::all_of(users_[at(id)].begin(), users_[at(id)].end(), [&](NodeId user) {
        return is_elementwise(tape_[user].op) || (tape_[user].op == Op::reduce && fuse_);
      });
      if (folded_[at(id)]) fusion_.folded.push_back(id);
    }
  }

  // Through folded broadcasts, to the node that is really read.
  NodeId source(NodeId id) const {
    while (folded_[at(id)]) id = tape_[id].operands[0];
    return id;
  }

  int32_t new_group(NodeId id) {
    Draft draft;
    draft.before.assign(words_, 0);
    draft.group.shape = tape_[id].shape;
    drafts_.push_back(std::move(draft));
    return static_cast<int32_t>(drafts_.size()) - 1;
  }

  void depend(int32_t g, NodeId id) {
    Bits more(words_, 0);
    for (NodeId operand : tape_[id].operands) {
      const int32_t h = group_of_[at(source(operand))];
      if (h < 0 || h == g) continue;
      put(more, h);
      join(more, drafts_[static_cast<size_t>(h)].before);
    }
    spread(g, more);
  }

  void spread(int32_t g, const Bits& more) {
    Draft& draft = drafts_[static_cast<size_t>(g)];
    join(draft.before, more);
    for (Draft& d : drafts_)
      if (!d.gone && has(d.before, g)) join(d.before, draft.before);
  }

  // May elementwise node `id` be computed in group g? Nothing it reads from elsewhere may wait for g.
  bool fits(int32_t g, NodeId id) const {
    const Draft& draft = drafts_[static_cast<size_t>(g)];
    if (!draft.open || draft.group.shape != tape_[id].shape || draft.members >= most_members) return false;
    for (NodeId operand : tape_[id].operands) {
      const NodeId from = source(operand);
      const int32_t h = group_of_[at(from)];
      if (h < 0) continue;
      if (h == g) {
        const bool same_place = from == operand && tape_[from].op != Op::reduce;
        if (!same_place) return false;
      } else if (has(drafts_[static_cast<size_t>(h)].before, g)) {
        return false;
      }
    }
    return true;
  }

  bool independent(int32_t a, int32_t b) const {
    return !has(drafts_[static_cast<size_t>(a)].before, b) && !has(drafts_[static_cast<size_t>(b)].before, a);
  }

  void merge(int32_t into, int32_t from) {
    Draft& a = drafts_[static_cast<size_t>(into)];
    Draft& b = drafts_[static_cast<size_t>(from)];
    if (b.group.head >= 0) a.group.head = b.group.head;
    a.group.chain.insert(a.group.chain.end(), b.group.chain.begin(), b.group.chain.end());
    a.group.reductions.insert(a.group.reductions.end(), b.group.reductions.begin(), b.group.reductions.end());
    a.members += b.members;
    for (NodeId id : b.group.nodes()) group_of_[at(id)] = into;
    for (Draft& d : drafts_)
      if (has(d.before, from)) put(d.before, into);
    const Bits more = b.before;
    b = Draft{};
    b.before.assign(words_, 0);
    b.gone = true;
    spread(into, more);
  }

  bool can_merge(int32_t a, int32_t b) const {
    const Draft& x = drafts_[static_cast<size_t>(a)];
    const Draft& y = drafts_[static_cast<size_t>(b)];
    if (!x.open || !y.open || x.group.shape != y.group.shape || x.members + y.members > most_members) return false;
    const bool heads = x.group.head >= 0 || y.group.head >= 0;
    if (x.group.head >= 0 && y.group.head >= 0) return false;
    if (heads && (!x.group.reductions.empty() || !y.group.reductions.empty())) return false;
    if (!x.group.reductions.empty() && !y.group.reductions.empty() && axes(x) != axes(y)) return false;
    return independent(a, b);
  }

  const Dims& axes(const Draft& draft) const {
    return std::get<ReduceDims>(tape_[draft.group.reductions[0]].attributes).axes;
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
          if (h != g && !drafts_[static_cast<size_t>(h)].gone && can_merge(g, h)) {
            // Only if the node, too, may live in the merged group.
            bool safe = true;
            for (NodeId operand : node.operands) {
              const NodeId from = source(operand);
              const int32_t o = group_of_[at(from)];
              if (o == h && (from != operand || tape_[from].op == Op::reduce)) safe = false;
              if (o >= 0 && o != h && o != g && has(drafts_[static_cast<size_t>(o)].before, h)) safe = false;
            }
            if (safe) merge(g, h);
          }
    } else if (node.op == Op::reduce && fuse_) {
      const int32_t h = group_of_[at(node.operands[0])];
      if (h >= 0 && !folded_[at(node.operands[0])]) {
        const Draft& d = drafts_[static_cast<size_t>(h)];
        const bool member = d.open && d.group.head < 0 && tape_[node.operands[0]].op != Op::reduce;
        if (member && (d.group.reductions.empty() || axes(d) == std::get<ReduceDims>(node.attributes).axes)) g = h;
      }
    }
    if (g < 0) {
      g = new_group(id);
      Draft& draft = drafts_[static_cast<size_t>(g)];
      if (is_elementwise(node.op)) {
        draft.open = fuse_;
      } else if (node.op == Op::reduce) {
        draft.group.shape = tape_[node.operands[0]].shape;
      } else {
        draft.group.head = id;
        draft.open = fuse_ && (node.op == Op::dot_general || node.op == Op::convolution);
      }
    }
    Draft& draft = drafts_[static_cast<size_t>(g)];
    if (is_elementwise(node.op))
      draft.group.chain.push_back(id);
    else if (node.op == Op::reduce)
      draft.group.reductions.push_back(id);
    ++draft.members;
    group_of_[at(id)] = g;
    depend(g, id);
  }

  void finish() {
    for (Draft& draft : drafts_) {
      if (draft.gone) continue;
      FusionGroup& group = draft.group;
      std::sort(group.chain.begin(), group.chain.end());
      std::sort(group.reductions.begin(), group.reductions.end());
      const int32_t me = group_of_[at(group.nodes()[0])];
      std::set<NodeId> operands;
      for (NodeId id : group.nodes()) {
        for (NodeId operand : tape_[id].operands)
          if (group_of_[at(source(operand))] != me) operands.insert(source(operand));
        bool read = root_[at(id)];
        std::vector<NodeId> users = users_[at(id)];
        while (!users.empty() && !read) {
          const NodeId user = users.back();
          users.pop_back();
          if (folded_[at(user)])
            users.insert(users.end(), users_[at(user)].begin(), users_[at(user)].end());
          else
            read = group_of_[at(user)] != me;
        }
        if (read) group.outputs.push_back(id);
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
    const auto last = [&](size_t g) { return drafts_[g].group.nodes().back(); };
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
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> root_, folded_;
  std::vector<int32_t> group_of_;
  std::vector<Draft> drafts_;
  size_t words_ = 0;
};

}  // namespace

Fusion fusion_groups(const Program& program, bool fuse) { return Fuser(program, fuse).run(); }

}  // namespace backbeat
