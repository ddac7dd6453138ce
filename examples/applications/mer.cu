// Meraculous: from short reads of a genome to contigs. Phase 1 counts the k-mers of all reads, with the bases around
// them: gravel::kmer_counter does it by minimizers, and each PE inserts the k-mers that it owns into its part of a hash
// table. The other way, which the rival networking models need, is a message for each k-mer to its owner, where a
// handler inserts it. Phase 2 (contigs.hpp) follows unique extensions.
#include <cstdio>
#include <map>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include "bench/rivals/mer_oracle.hpp"
#include "bench/rivals/model.hpp"
#include "examples/applications/contigs.hpp"
#include "examples/applications/kmer_check.hpp"
#include "examples/applications/kmer_reader.hpp"
#include "examples/applications/mer_reference.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/read_input.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;
using gravel::device_array;
using gravel::kmer_shape;
using gravel::lane_group;
using gravel::longest_kmer;
using gravel::no_base;
using gravel::read_set;

constexpr const char* program_name = "mer";
/// A lane looks at so many places of the reads in a row, or as many as the networking model can send, and at the k - 1
/// behind them.
constexpr uint64_t long_stretch = 256, own_stretch = 64;
/// Places of a table that are worked on between two lines of progress.
constexpr uint64_t first_piece = GRAVEL_CUDA ? 1 << 26 : 1 << 22;

struct mer_options {
  read_input reads;
  model_options network;
  unsigned k = 31;
  uint64_t min_count = 2, slots = 0, serial_limit = 1 << 22;
  bool no_verify = false;
  std::string count_by = "minimizers", json, dump, contigs, fault;

  void add_options(command_line& line);
  void check();
  bool counts_by_minimizers() const;
  uint64_t symmetric_bytes() const;
  void complete();
};

/// Counts a k-mer that has `before` and `after` around it (codes, no_base at the ends of reads). Lanes that hold the
/// same one add once together.
struct insert {
  static constexpr const char* name = "mer_insert";
  static constexpr bool batch = true;
  using context = table_part;
  GRAVEL_DEVICE void operator()(const gravel_t&, table_part* mine, const gravel_batch& lanes, uint64_t kmer,
                                uint8_t before, uint8_t after) const {
    const uint32_t same = lanes.match(kmer);
    uint64_t befores = 0, afters = 0;
    for (unsigned base = 0; base < 4; ++base) {
      befores |= uint64_t{lane_group::popcount(lanes.ballot(before == base) & same)} << 16 * base;
      afters |= uint64_t{lane_group::popcount(lanes.ballot(after == base) & same)} << 16 * base;
    }
    const gravel_batch sharers = lanes.part(same);
    if (sharers.is_leader()) mine->count(kmer, sharers.size(), befores, afters);
  }
};

/// In a job of one PE a lane counts its k-mers itself: handle and sender of such a kernel.
struct own_table {
  table_part part;
  uint32_t n_pes;
};
struct own_table_sender {
  table_part part;
  GRAVEL_DEVICE void begin(const own_table& g) {
    if (threadIdx.x == 0) part = g.part;
    __syncthreads();
  }
  GRAVEL_DEVICE void end() {}
  template <class>
  GRAVEL_DEVICE void am(int, uint64_t kmer, uint8_t before, uint8_t after) {
    part.count_one(kmer, before, after);
  }
};

__global__ void clear_table(kmer_table table, uint64_t* lost) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (lane == 0) *lost = 0;
  for (uint64_t slot = lane; slot < table.slots; slot += lanes) table.entries[slot] = {no_kmer, 0, {}};
}

/// Sends the k-mers that begin in stretches first ... first + count of `codes`, which has `size` codes; stretches begin
/// at `from`.
template <class Sender, class Handle>
__global__ void send_kmers(Handle g, kmer_shape shape, const uint8_t* codes, uint64_t size, uint64_t stretch,
                           uint64_t from, uint64_t first, uint64_t count) {
  __shared__ Sender sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += lanes) {
    const uint64_t begin = (from + first + i) * stretch;
    kmer_reader reader(shape, codes, size, begin, begin + stretch);
    read_kmer found;
    while (!reader.is_done())
      if (reader.next(found))
        sender.template am<insert>(kmer_table::owner_by_hash(found.kmer, g.n_pes), found.kmer, found.before,
                                   found.after);
  }
  sender.end();
}

/// Inserts k-mers that are counted, each once, into an empty table.
__global__ void insert_counted(table_part part, uint64_t count, const uint64_t* kmers, const uint32_t* counts,
                               const uint64_t* before, const uint64_t* after) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x)
    if (kmer_entry* const entry = part.table.find_or_insert(kmers[i])) {
      entry->count = counts[i];
      entry->around[0].word = before[i];
      entry->around[1].word = after[i];
    } else fetch_add<scope::device>(part.lost, uint64_t{counts[i]});
}

/// Phase 1 by minimizers. Collective.
void insert_all(const neighbour_counter& counter, const table_part& part) {
  gravel_launch(insert_counted, blocks_for(counter.size()), lanes_of_block, part, counter.size(), counter.kmers(),
                counter.counts(), counter.before(), counter.after());
  gravel_barrier_all();
}

/// Phase 1 by messages. Collective.
void count_all(const kmer_shape& shape, const uint8_t* codes, uint64_t size, network_model& net,
               const table_part& part) {
  const bool alone = gravel_n_pes() == 1 && net.is_gravel();
  const auto send = gravel_n_pes() > 2 ? send_kmers<gravel_block_sender<lanes_of_block, 1024, 3>, gravel_t>
                                       : send_kmers<gravel_block_sender<lanes_of_block>, gravel_t>;
  progress report("phase 1", gravel_my_pe() == 0);
  const uint64_t stretch = alone ? own_stretch : std::min(long_stretch, net.most_of_lane()),
                 stretches = std::max<uint64_t>((size + stretch - 1) / stretch, 1);
  in_pieces(
      stretches, net.is_collective() ? stretches : first_piece / stretch, report, [&](uint64_t from, uint64_t count) {
        if (alone) {
          gravel_launch(send_kmers<own_table_sender, own_table>, static_cast<unsigned>(count / lanes_of_block + 1),
                        lanes_of_block, own_table{part, 1}, shape, codes, size, stretch, from, uint64_t{0}, count);
          gravel_synchronize();
          return;
        }
        const network_work kmers{.items = count,
                                 .blocks = blocks_for(count * stretch),
                                 .of_item = stretch,
                                 .of_item_to_one = stretch,
                                 .message_bytes = bytes_of(gravel::detail::am_message<insert>::kind)};
        net.launch(send, send_kmers<model_sender, model_handle>, kmers, shape, codes, size, stretch, from);
        gravel_synchronize();
      });
  gravel_barrier_all();
}

/// The arrays of phase 2, and what it found.
struct assembly {
  contig_job job;
  device_array<uint32_t> number_of, slot_of, distance, got_distance;
  device_array<state_ref> next, got_next, begin;
  device_array<uint8_t> finished;
  uint64_t rounds = 0, circular = 0;  ///< circular: k-mers of all PEs
  std::vector<std::string> contigs;   ///< of this PE

  assembly(const kmer_table& table, kmer_shape shape, uint64_t least, uint64_t most, uint64_t* totals)
      : number_of(table.slots),
        slot_of(most),
        distance(2 * most),
        got_distance(2 * most),
        next(2 * most),
        got_next(2 * most),
        begin(2 * most),
        finished(2 * most) {
    job = {table,
           shape,
           least,
           0,
           number_of.data(),
           slot_of.data(),
           next.data(),
           distance.data(),
           finished.data(),
           got_next.data(),
           got_distance.data(),
           begin.data(),
           nullptr,
           totals};
  }
};

uint64_t total_of(const contig_job& job, unsigned which) {
  uint64_t value = 0;
  gravel_synchronize();
  gravel_copy(&value, &job.totals[which], sizeof(value));
  return value;
}

/// Phase 2. Collective.
void find_all(assembly& all) {
  contig_job& job = all.job;
  const unsigned grid = blocks_to_fill_device(), block = lanes_of_block;
  gravel_launch(number_kmers, grid, block, job);
  job.kmers = total_of(job, 0);
  device_array<contig_job> here(std::vector<contig_job>{job});
  gravel_set_context<pair_ends>(here.data());
  gravel_set_context<join>(here.data());
  gravel_set_context<ask>(here.data());
  gravel_set_context<answer>(here.data());
  gravel_launch(start_states, grid, block, job);
  gravel_barrier_all();
  gravel_launch(link_states, blocks_for(2 * job.kmers), block, gravel_handle(), job);
  gravel_wait_quiescent();
  gravel_launch(advance, grid, block, gravel_handle(), job, true);
  const uint64_t states = gravel_sum_all(2 * job.kmers);
  uint64_t finished = gravel_sum_all(total_of(job, 1));
  progress report("phase 2", gravel_my_pe() == 0);
  // In each round the states up to twice as far from their end finish: if none does, those left are on circles.
  for (uint64_t before = 0; finished != before && finished < states; ++all.rounds) {
    before = finished;
    gravel_launch(ask_next, blocks_for(2 * job.kmers), block, gravel_handle(), job);
    gravel_wait_quiescent();
    gravel_launch(advance, grid, block, gravel_handle(), job, false);
    finished = gravel_sum_all(total_of(job, 1));
    report.at(finished, states);
  }
  all.circular = (states - finished) / 2;
  gravel_launch(place_contigs, grid, block, job);
  std::vector<uint8_t> letters(total_of(job, 2));
  device_array<uint8_t> spelled(letters);
  job.letters = spelled.data();
  device_array<contig_job> with_letters(std::vector<contig_job>{job});
  gravel_set_context<spell>(with_letters.data());
  gravel_barrier_all();
  gravel_launch(spell_contigs, blocks_for(2 * job.kmers), block, gravel_handle(), job);
  gravel_barrier_all();
  gravel_copy(letters.data(), spelled.data(), letters.size());
  std::string text;
  for (const uint8_t code : letters)
    if (code != no_base) text += "ACGT"[code];
    else {
      all.contigs.push_back(canonical(text));
      text.clear();
    }
  gravel_barrier_all();  // nobody releases what another one's message may still need
}

struct findings {
  uint64_t distinct = 0, left = 0, contigs = 0, letters = 0, longest = 0, n50 = 0, checksum = 0;
};

/// Half of all letters are in contigs of this length or longer ones. Collective.
uint64_t find_n50(const std::vector<std::string>& contigs, uint64_t letters, uint64_t longest) {
  uint64_t low = 0, high = longest;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    uint64_t in_longer = 0;
    for (const std::string& contig : contigs) in_longer += contig.size() >= middle ? contig.size() : 0;
    if (2 * gravel_sum_all(in_longer) >= letters) low = middle;
    else high = middle - 1;
  }
  return low;
}

std::string text_of(uint64_t kmer, unsigned k) {
  std::string text(k, 'A');
  for (unsigned i = k; i-- > 0; kmer >>= 2) text[i] = "ACGT"[kmer & 3];
  return text;
}

/// What this PE has that the serial computation has not, or has otherwise. Collective: what is missing is counted by PE
/// 0.
uint64_t compare_serially(const mer_options& o, const std::vector<kmer_entry>& entries, const assembly& all,
                          const findings& found) {
  const kmer_map expected = count_kmers(o.reads.load(), o.k);
  const contig_facts contigs = find_contigs(expected, o.min_count);
  const auto saturated = [](uint64_t count) { return std::min<uint64_t>(count, 0xffff); };
  uint64_t wrong = 0;
  for (const kmer_entry& entry : entries) {
    if (entry.kmer == no_kmer) continue;
    const auto at = expected.find(text_of(entry.kmer, o.k));
    bool same = at != expected.end() && at->second.count == entry.count &&
                all.job.table.owner(entry.kmer, static_cast<uint32_t>(gravel_n_pes())) == gravel_my_pe();
    for (unsigned base = 0; same && base < 4; ++base)
      same = base_counts::field(entry.before().word, base) == saturated(at->second.before[base]) &&
             base_counts::field(entry.after().word, base) == saturated(at->second.after[base]);
    wrong += !same;
  }
  for (const std::string& contig : all.contigs) wrong += contigs.contigs.count(contig) == 0;
  if (gravel_my_pe() == 0)
    wrong += (found.distinct != expected.size()) + (found.contigs != contigs.contigs.size()) +
             (all.circular != contigs.circular);
  return wrong;
}

/// For tests of the check: one k-mer of this PE is counted once too often, another one once too little.
void spoil_counts(kmer_entry* entries, uint64_t slots) {
  std::vector<kmer_entry> all(slots);
  gravel_copy(all.data(), entries, slots * sizeof(kmer_entry));
  unsigned spoilt = 0;
  for (uint64_t slot = 0; slot < slots && spoilt < 2; ++slot) {
    if (all[slot].kmer == no_kmer) continue;
    all[slot].count += spoilt++ ? -1 : 1;
    gravel_copy(entries + slot, &all[slot], sizeof(kmer_entry));
  }
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const mer_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  const kmer_shape shape{o.k};
  read_set reads;
  all_succeed(program_name, [&] { reads = o.reads.load({static_cast<uint64_t>(me), static_cast<uint64_t>(n_pes)}); });
  const uint64_t kmers = gravel_sum_all(reads.kmers(o.k)), bases = gravel_sum_all(reads.bases),
                 unknown = gravel_sum_all(reads.unknown), n_reads = gravel_sum_all(reads.reads);
  // Room for all to be different, and for hashes that are not quite even.
  const uint64_t slots = o.slots ? o.slots : kmers / static_cast<uint64_t>(n_pes) * 5 / 4 + 1024;
  all_succeed(program_name, [&] {
    if (kmers == 0) fail_text("no read has " + std::to_string(o.k) + " bases in a row");
    if (slots > 0xffffffff)
      fail_text("a table of " + std::to_string(slots) +
                " slots a PE is too large (2^32 - 1): use more PEs, or give --slots if k-mers repeat");
  });
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\nreads: %s; %llu reads, %llu bases, %llu unknown letters; %llu k-mers of "
        "%u bases, %llu slots "
        "a PE\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.reads.description().c_str(),
        static_cast<unsigned long long>(n_reads), static_cast<unsigned long long>(bases),
        static_cast<unsigned long long>(unknown), static_cast<unsigned long long>(kmers), o.k,
        static_cast<unsigned long long>(slots));
  std::fflush(stdout);

  device_array<kmer_entry> entries(slots);
  device_array<uint64_t> counters(std::vector<uint64_t>(4));
  const bool by_minimizers = o.counts_by_minimizers();
  const kmer_table table{entries.data(), static_cast<uint32_t>(slots), by_minimizers ? o.k : 0};
  const table_part own{table, counters.data() + 3};
  device_array<table_part> part(std::vector<table_part>{own});
  network_model net(program_name, o.network);
  net.receive<insert>(part.data());
  device_array<uint8_t> codes(reads.codes);
  gravel_launch(clear_table, blocks_to_fill_device(), lanes_of_block, table, counters.data() + 3);
  std::optional<neighbour_counter> counter;
  if (by_minimizers) counter.emplace(o.k, reads.codes.size());
  wait_to_begin_together();
  double counting = 0, inserting = 0;
  if (by_minimizers) {
    counting = seconds_of([&] { counter->count(codes.data(), reads.codes.size()); });
    inserting = seconds_of([&] { insert_all(*counter, own); });
    counter.reset();
  } else counting = seconds_of([&] { count_all(shape, codes.data(), reads.codes.size(), net, own); });
  net.check();
  if (o.fault == "count" && me == 0) spoil_counts(entries.data(), slots);
  kmer_sums of_reads{}, of_table{};
  if (!o.no_verify) {
    of_reads = sums_of_reads(shape, codes.data(), reads.codes.size());
    of_table = sums_of_table(table);
  }
  codes.release();
  std::vector<kmer_entry> counted(slots);
  uint64_t lost = 0;
  gravel_copy(counted.data(), entries.data(), slots * sizeof(kmer_entry));
  gravel_copy(&lost, counters.data() + 3, sizeof(lost));
  findings found;
  uint64_t left = 0, total = 0;
  for (const kmer_entry& entry : counted) {
    if (entry.kmer == no_kmer) continue;
    ++found.distinct;
    total += entry.count;
    left += entry.count >= o.min_count;
    found.checksum += mix(entry.kmer ^ mix(entry.count ^ mix(entry.before().word ^ mix(entry.after().word))));
  }
  lost = gravel_sum_all(lost);
  all_succeed(program_name, [&] {
    if (lost)
      fail_text("the table is too small: of " + std::to_string(kmers) + " k-mers " + std::to_string(lost) +
                " found no room in " + std::to_string(slots) + " slots a PE; give more --slots");
  });
  found.distinct = gravel_sum_all(found.distinct);
  found.left = gravel_sum_all(left);
  found.checksum = gravel_sum_all(found.checksum);
  uint64_t wrong = gravel_sum_all(total) != kmers;
  if (me == 0)
    std::printf(
        "phase 1: %.4f s, %.4g M k-mers/s, and %.4f s for the table; %llu different ones, %llu of them seen %llu times "
        "or more; checksum %016llx\n",
        counting, static_cast<double>(kmers) / counting / 1e6, inserting,
        static_cast<unsigned long long>(found.distinct), static_cast<unsigned long long>(found.left),
        static_cast<unsigned long long>(o.min_count), static_cast<unsigned long long>(found.checksum));
  std::fflush(stdout);

  assembly all(table, shape, o.min_count, left, counters.data());
  const double joining = seconds_of([&] { find_all(all); });
  uint64_t letters = 0, longest = 0;
  for (const std::string& contig : all.contigs) {
    letters += contig.size();
    longest = std::max<uint64_t>(longest, contig.size());
  }
  found.contigs = gravel_sum_all(static_cast<uint64_t>(all.contigs.size()));
  found.letters = gravel_sum_all(letters);
  found.longest = gravel_max_all(longest);
  found.n50 = find_n50(all.contigs, found.letters, found.longest);

  if (o.fault == "letter" && !all.contigs.empty()) all.contigs[0].back() = all.contigs[0].back() == 'A' ? 'C' : 'A';
  const bool serial = !o.no_verify && bases <= o.serial_limit;
  const bool random = o.reads.files.empty(), exact = random && o.reads.genome.errors == 0;
  const bool referred = random ? !o.no_verify : !o.reads.reference.empty();
  // Whatever the size.
  uint64_t differences = 0;
  if (!o.no_verify) {
    differences += of_reads.counts != of_table.counts;
    differences += of_table.full == 0 && of_reads.around != of_table.around;
    differences += of_table.misplaced;
    differences += !contigs_have_all_kmers(all.job, shape, all.contigs);
  }
  reference_check in;
  all_succeed(program_name, [&] {
    if (serial) wrong += compare_serially(o, counted, all, found);
    if (referred) wrong += in.look(o.reads.reference_sequences(), o.k, counted, o.min_count, all.contigs, exact);
    if (!o.contigs.empty()) {
      output_file out(o.contigs + '.' + std::to_string(me));
      for (size_t i = 0; i < all.contigs.size(); ++i)
        out.write(">contig_" + std::to_string(me) + '_' + std::to_string(i) +
                  " length=" + std::to_string(all.contigs[i].size()) + '\n' + all.contigs[i] + '\n');
      out.finish();
    }
  });
  in.combine();
  wrong = gravel_sum_all(wrong) + differences;
  if (me == 0) {
    std::printf(
        "phase 2: %.4f s, %llu rounds; %llu contigs, %llu bases, the longest %llu, N50 %llu; %llu k-mers on circles\n",
        joining, static_cast<unsigned long long>(all.rounds), static_cast<unsigned long long>(found.contigs),
        static_cast<unsigned long long>(found.letters), static_cast<unsigned long long>(found.longest),
        static_cast<unsigned long long>(found.n50), static_cast<unsigned long long>(all.circular));
    if (referred)
      std::printf(
          "%llu of %llu contigs are in the reference as a whole, on either strand: they cover %llu of its %llu bases "
          "(%.2f %%)\n"
          "%llu of its %llu k-mers were seen %llu times or more, and %llu others\n",
          static_cast<unsigned long long>(in.contigs), static_cast<unsigned long long>(found.contigs),
          static_cast<unsigned long long>(in.covered), static_cast<unsigned long long>(in.bases),
          100.0 * static_cast<double>(in.covered) / static_cast<double>(std::max<uint64_t>(in.bases, 1)),
          static_cast<unsigned long long>(in.kmers_seen), static_cast<unsigned long long>(in.kmers),
          static_cast<unsigned long long>(o.min_count), static_cast<unsigned long long>(found.left - in.kmers_seen));
    if (o.no_verify) std::printf("not verified\n");
    else
      std::printf(
          "%llu differences between the k-mers of reads and table, and of table and contigs, by sums of hashes%s\n",
          static_cast<unsigned long long>(differences),
          of_table.full ? "; not checked: the bases around k-mers, as some were seen 65535 times or more" : "");
    if (serial)
      std::printf("%llu wrong k-mers and contigs, compared with a serial hash table and walk%s\n",
                  static_cast<unsigned long long>(wrong), exact ? " and with the genome" : "");
    else if (!o.no_verify)
      std::printf("%llu mistakes%s; not checked: that no contig goes on (more than %llu bases, --serial-limit)%s\n",
                  static_cast<unsigned long long>(wrong), exact ? ", with contigs that the genome does not have" : "",
                  static_cast<unsigned long long>(o.serial_limit),
                  random && !exact ? ", nor that contigs of reads with errors are right" : "");
  }
  if (!o.dump.empty()) {
    std::map<uint64_t, double> kmers_by_count;
    for (const kmer_entry& entry : counted)
      if (entry.kmer != no_kmer) ++kmers_by_count[entry.count];
    column counts{"count", {}}, how_many{"kmers", {}}, lengths{"bases", {}};
    for (const auto& [count, of_count] : kmers_by_count) {
      counts.values.push_back(static_cast<double>(count));
      how_many.values.push_back(of_count);
    }
    for (const std::string& contig : all.contigs) lengths.values.push_back(static_cast<double>(contig.size()));
    dump_columns(program_name, o.dump, "kmers", {counts, how_many});
    dump_columns(program_name, o.dump, "contigs", {lengths});
  }
  facts = facts_of_job(program_name);
  facts.insert(facts.end(), {{"reads", o.reads.description()},
                             {"bases", bases},
                             {"model", o.network.name},
                             {"k", uint64_t{o.k}},
                             {"kmers", kmers},
                             {"slots", slots},
                             {"distinct", found.distinct},
                             {"min_count", o.min_count},
                             {"left", found.left},
                             {"checksum", found.checksum},
                             {"count_by", by_minimizers ? "minimizers" : "messages"},
                             {"seconds", counting},
                             {"table_seconds", inserting},
                             {"kmers_per_s", static_cast<double>(kmers) / counting},
                             {"contig_seconds", joining},
                             {"rounds", all.rounds},
                             {"contigs", found.contigs},
                             {"contig_bases", found.letters},
                             {"longest", found.longest},
                             {"n50", found.n50},
                             {"circular", all.circular},
                             {"has_reference", referred},
                             {"in_reference", in.contigs},
                             {"reference_bases", in.bases},
                             {"reference_covered", in.covered},
                             {"reference_kmers", in.kmers},
                             {"reference_kmers_seen", in.kmers_seen},
                             {"checked_by_hashes", !o.no_verify},
                             {"compared_with_genome", exact && referred},
                             {"compared_with_serial", serial},
                             {"wrong", wrong},
                             {"right", wrong == 0}});
  return wrong == 0;
}

void mer_options::add_options(command_line& line) {
  reads.add_options(line);
  network.add_options(line);
  line.add_option("--k", k, "Bases of a k-mer: odd, at most 31").capture_default_str();
  line.add_option("--min-count", min_count, "For contigs: k-mers and extensions seen less often are errors")
      .range(1, 65535)
      .capture_default_str();
  line.add_option("--slots", slots, "Of each PE's table; if not given, room for all k-mers to be different")
      .range(uint64_t{1}, uint64_t{0xffffffff});
  line.add_option(
          "--count-by", count_by,
          "How k-mers come to their owners: by minimizers, or in a message for each; rival models send messages")
      .one_of({"minimizers", "messages"})
      .capture_default_str();
  line.add_option("--contigs", contigs,
                  "Write the contigs: PE n those that begin there, as FASTA, to this name with .n behind it");
  line.add_flag("--no-verify", no_verify, "Do not check the result");
  line.add_option("--serial-limit", serial_limit,
                  "Compare with a serial computation up to so many bases; more are checked by sums of hashes, and with "
                  "a random genome")
      .capture_default_str();
  line.add_option("--fault", fault, "Make the result wrong, to see that the check finds it")
      .one_of({"count", "letter"})
      .hidden();
}
void mer_options::check() {
  if (k % 2 == 0 || k < 3 || k > longest_kmer)
    fail_text("k is odd, from 3 to " + std::to_string(longest_kmer) + " (a k-mer is one word of 64 bits), not " +
              std::to_string(k));
  reads.check();
  network.prepare();
  if (!contigs.empty()) need_writable(contigs + ".0");
}
bool mer_options::counts_by_minimizers() const {
  return count_by == "minimizers" && network.model() == networking::gravel;
}
uint64_t mer_options::symmetric_bytes() const {
  return network.symmetric_bytes() + gravel::kmer_counter_options{}.most_inbox_bytes + (1 << 20);
}
void mer_options::complete() { reads.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application<insert, neighbour_counter::delivery, pair_ends, join, ask, answer, spell>(
      {program_name, "Meraculous: counts the k-mers of reads in a distributed hash table, and joins them to contigs."},
      argc, argv, mer_options{}, solve);
}
