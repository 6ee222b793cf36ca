#include <gtest/gtest.h>

#include "data/spans/english/characters.h"
#include "data/spans/english/clean_text.h"
#include "data/spans/english/lexicon.h"
#include "data/spans/english/phrases.h"
#include "data/spans/english/transitions.h"
#include "data/spans/english/tree.h"

namespace fathom::data::spans::english {
namespace {

// Values of spacy.strings.get_string_id.
TEST(StringIds, AreSpacys) {
  const StringIds ids({{"number", 432}});
  EXPECT_EQ(ids(""), 0u);
  EXPECT_EQ(ids("number"), 432u);
  EXPECT_EQ(ids("a"), 0xa52be5b3f6674b2aULL);
  EXPECT_EQ(ids("12345678"), 0x890060166fadafa0ULL);
  EXPECT_EQ(ids("1234567890123456789"), 0xc37feaba98bf2f44ULL);
  EXPECT_EQ(ids("é漢😀"), 0xab27675c7e403567ULL);
}

// Values of thinc's Ops.hash.
TEST(StringIds, HashToTheEmbeddingRowsOfThinc) {
  const auto words = [](std::uint64_t key, std::uint32_t seed) {
    const Words4 hash = murmur3_128(key, seed);
    return std::vector<std::uint32_t>(hash.word, hash.word + 4);
  };
  using Expected = std::vector<std::uint32_t>;
  EXPECT_EQ(words(0, 8), (Expected{0, 0, 0, 0}));
  EXPECT_EQ(words(1, 12), (Expected{2938686206, 2291508213, 2246688320, 3554967022}));
  EXPECT_EQ(words(0xd5d347e79e917eaULL, 11),
            (Expected{655341642, 1178311148, 66608224, 3168702152}));
  EXPECT_EQ(words(~0ULL, 3), (Expected{2319565769, 81934161, 1274065186, 2493681605}));
}

TEST(Characters, LowerCaseIsPythons) {
  EXPECT_EQ(lower("ABC xyz ÄÉÑ"), "abc xyz äéñ");
  EXPECT_EQ(lower("İ"), "i\u0307");
  EXPECT_EQ(lower("ΣΟΦΟΣ"), "σοφος");
  EXPECT_EQ(lower("ΣΟΦΟΣ."), "σοφος.");
  EXPECT_EQ(lower("ΟΔΥΣΣΕΥΣ'Α"), "οδυσσευσ'α");
  EXPECT_EQ(lower("Σ"), "σ");
  EXPECT_EQ(lower("1Σ"), "1σ");
  EXPECT_EQ(lower(""), "");
}

TEST(Characters, ClassesArePythons) {
  EXPECT_TRUE(is_space(U'\x1C') && is_space(U'\x85') && is_space(U'\u3000') && is_space(U'\n'));
  EXPECT_FALSE(is_space(U'\u200B') || is_space(U'\u180E') || is_space(U'a') || is_space(0));
  EXPECT_TRUE(is_digit(U'7') && is_digit(U'²') && is_digit(U'①') && is_digit(U'٣'));
  EXPECT_FALSE(is_digit(U'½') || is_digit(U'Ⅷ') || is_digit(U'⑳') || is_digit(U'a'));
  EXPECT_TRUE(is_alpha(U'é') && is_alpha(U'漢') && is_alpha(U'ª') && is_alpha(U'z'));
  EXPECT_FALSE(is_alpha(U'Ⅷ') || is_alpha(U'_') || is_alpha(U'[') || is_alpha(U'@'));
  EXPECT_TRUE(is_upper(U'Z') && is_upper(U'Σ'));
  EXPECT_FALSE(is_upper(U'ǅ') || is_upper(U'z') || is_upper(U'漢'));
}

TEST(Lexicon, ShapesCutRunsAtFour) {
  EXPECT_EQ(shape_of("Apple2"), "Xxxxxd");
  EXPECT_EQ(shape_of("internationally"), "xxxx");
  EXPECT_EQ(shape_of("AAAAAbbbbb11111-----"), "XXXXxxxxdddd----");
  EXPECT_EQ(shape_of("漢字é"), "xxx");
  EXPECT_EQ(shape_of(std::string(99, 'a')), "xxxx");
  EXPECT_EQ(shape_of(std::string(100, 'a')), "LONG");
  EXPECT_EQ(shape_of(std::string_view("\0\0", 2)), std::string_view("\0\0", 2));
}

TEST(CleanText, KeepsTheOffsetsOfInvalidText) {
  const std::string text =
      "a\xFF"
      "b\xE6\xBC"
      "c\xE6\xBC\xA2\xC0";
  const CleanText clean(text);
  EXPECT_EQ(clean.text(), "a\uFFFDb\uFFFDc漢\uFFFD");
  const auto original = [&](std::uint32_t begin, std::uint32_t end) {
    return clean.original({begin, end});
  };
  EXPECT_EQ(original(0, 1), (ByteRange{0, 1}));
  EXPECT_EQ(original(1, 4), (ByteRange{1, 2}));
  EXPECT_EQ(original(5, 8), (ByteRange{3, 5}));
  EXPECT_EQ(original(9, 12), (ByteRange{6, 9}));
  EXPECT_EQ(original(12, 15), (ByteRange{9, 10}));
  EXPECT_EQ(CleanText("plain").original({1, 3}), (ByteRange{1, 3}));
}

TEST(Phrases, VerbPatternsAreTheLongestFromEachStart) {
  using enum Pos;
  const auto find = [](const std::vector<Pos>& pos) {
    std::vector<std::pair<int, int>> out;
    for (const TokenPhrase& p : verb_patterns(pos)) out.emplace_back(p.begin, p.end);
    return out;
  };
  using Expected = std::vector<std::pair<int, int>>;
  EXPECT_EQ(find({noun, aux, aux, adv, verb, verb, adv, noun}), (Expected{{1, 7}}));
  EXPECT_EQ(find({aux, adv, noun, verb}), (Expected{{3, 4}}));
  EXPECT_EQ(find({adv, aux, verb}), (Expected{{1, 3}}));
  // The adverb ends one phrase and begins the next: they overlap in part.
  EXPECT_EQ(find({verb, adv, adv, verb}), (Expected{{0, 3}, {1, 4}}));
  EXPECT_EQ(find({verb, space, verb}), (Expected{{0, 1}, {2, 3}}));
  EXPECT_EQ(find({aux, adv}), Expected{});
  EXPECT_EQ(find({}), Expected{});
}

TEST(Phrases, SweepDropsWhatIsContainedAndKeepsOverlaps) {
  const auto noun = [](std::uint32_t begin, std::uint32_t end) {
    return TokenPhrase{begin, end, PhraseKind::noun};
  };
  EXPECT_EQ(sweep({noun(0, 3), noun(0, 5), noun(4, 8)}),
            (std::vector<TokenPhrase>{noun(0, 5), noun(4, 8)}));
  EXPECT_EQ(sweep({noun(2, 3), noun(0, 3), noun(3, 4)}),
            (std::vector<TokenPhrase>{noun(0, 3), noun(3, 4)}));
  // Of equals the noun phrase, which callers list first.
  EXPECT_EQ(sweep({noun(1, 2), {1, 2, PhraseKind::verb}}), (std::vector<TokenPhrase>{noun(1, 2)}));
}

/// A tree from heads and label names.
struct Example {
  Labels labels;
  Tree tree;
  Example(const std::vector<int>& heads, const std::vector<std::string>& names,
          std::vector<bool> is_space = {}) {
    labels.add("ROOT");
    Arcs arcs{heads, {}};
    for (const std::string& name : names) arcs.label.push_back(labels.add(name));
    is_space.resize(heads.size());
    tree = make_tree(arcs, labels, is_space);
  }
};
constexpr int kRoot = ParseState::kNone;

TEST(Tree, EdgesAndSentences) {
  // "the dog barks . it sleeps"
  const Example example({1, 2, kRoot, 2, 5, kRoot}, {"det", "nsubj", "", "punct", "nsubj", ""});
  EXPECT_EQ(example.tree.head, (std::vector<std::uint32_t>{1, 2, 2, 2, 5, 5}));
  EXPECT_EQ(example.tree.left_edge, (std::vector<std::uint32_t>{0, 0, 0, 3, 4, 4}));
  EXPECT_EQ(example.tree.right_edge, (std::vector<std::uint32_t>{0, 1, 3, 3, 4, 5}));
  EXPECT_EQ(example.tree.sentence_start,
            (std::vector<bool>{true, false, false, false, true, false}));
  EXPECT_EQ(example.labels.name(example.tree.label[2]), "ROOT");
}

TEST(Tree, LiftedArcsAreLoweredBreadthFirstFromTheLeft) {
  // Token 4 hangs from the root, but belongs below a dobj: the nearest is token 3, not token 1.
  const std::vector<std::string> names = {"nsubj", "dobj", "", "dobj", "prep||dobj"};
  const Example example({2, 0, kRoot, 2, 2}, names);
  EXPECT_EQ(example.tree.head[4], 3u);
  EXPECT_EQ(example.labels.name(example.tree.label[4]), "prep");
  // A space cannot be a head; then the next level is searched.
  EXPECT_EQ(Example({2, 0, kRoot, 2, 2}, names, {false, false, false, true}).tree.head[4], 1u);
  // None found: the head stays and the label still loses its mark.
  const Example none({2, 0, kRoot, 2, 2}, {"nsubj", "det", "", "det", "prep||dobj"});
  EXPECT_EQ(none.tree.head[4], 2u);
  EXPECT_EQ(none.labels.name(none.tree.label[4]), "prep");
}

TEST(Phrases, VerbGroupsBeginWithAnAuxiliaryAndEndWithAParticle) {
  // "really has not slowly given up"
  const Example example({4, 4, 4, 4, kRoot, 4}, {"advmod", "aux", "neg", "advmod", "", "prt"});
  using enum Pos;
  const std::vector<Pos> pos = {adv, aux, part, adv, verb, adp};
  const PhraseFinder finder(example.labels);
  EXPECT_EQ(finder.verb_groups(example.tree, pos),
            (std::vector<TokenPhrase>{{1, 6, PhraseKind::verb}}));
  // Only adverbs before it: the verb stands alone.
  const Example bare({1, kRoot}, {"advmod", ""});
  EXPECT_EQ(PhraseFinder(bare.labels).verb_groups(bare.tree, {adv, verb}),
            (std::vector<TokenPhrase>{{1, 2, PhraseKind::verb}}));
}

TEST(Transitions, AReducedTokenWithoutHeadReturnsToTheBuffer) {
  ParseState state(3);
  EXPECT_EQ(state.valid(), (std::array<bool, 5>{true, false, false, false, true}));
  state.apply(MoveKind::shift, 0);
  state.apply(MoveKind::shift, 0);
  state.apply(MoveKind::reduce,
              0);  // token 1 is back, before token 2, and may not be shifted again
  EXPECT_EQ(state.features()[0], 1);
  EXPECT_EQ(state.features()[1], 2);
  EXPECT_FALSE(state.valid()[static_cast<std::size_t>(MoveKind::shift)]);
  state.apply(MoveKind::left_arc, 7);  // 1 -> 0, which frees it
  EXPECT_EQ(state.head(0), 1);
  EXPECT_EQ(state.label(0), 7);
  EXPECT_TRUE(state.valid()[static_cast<std::size_t>(MoveKind::shift)]);
}

TEST(Transitions, ALeftArcTakesAChildFromItsEarlierHead) {
  ParseState state(4);
  state.apply(MoveKind::shift, 0);
  state.apply(MoveKind::right_arc, 1);  // 0 -> 1
  state.apply(MoveKind::reduce, 0);
  state.apply(MoveKind::right_arc, 2);  // 0 -> 2
  state.apply(MoveKind::left_arc, 3);   // 3 -> 2 instead
  EXPECT_EQ(state.head(2), 3);
  EXPECT_EQ(state.label(2), 3);
  EXPECT_EQ(state.features()[7], 1) << "the stack's top has its earlier right child again";
  EXPECT_EQ(state.features()[5], 2) << "the buffer's first has a left child";
}

TEST(Transitions, AFreshSentenceWaitsForAnEmptyStack) {
  ParseState state(2);
  state.apply(MoveKind::split, 0);
  EXPECT_FALSE(state.valid()[static_cast<std::size_t>(MoveKind::split)]) << "only once";
  state.apply(MoveKind::shift, 0);
  EXPECT_EQ(state.valid(), (std::array<bool, 5>{false, true, false, false, false}));
  state.apply(MoveKind::reduce, 0);
  state.apply(MoveKind::shift, 0);
  state.apply(MoveKind::reduce, 0);
  EXPECT_TRUE(state.is_final());
  EXPECT_EQ(state.head(0), ParseState::kNone);
}

}  // namespace
}  // namespace fathom::data::spans::english
