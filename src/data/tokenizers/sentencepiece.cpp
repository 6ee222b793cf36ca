#include <algorithm>

#include "core/error.h"
#include "core/files.h"
#include "data/tokenizers/components.h"
#include "data/tokenizers/formats.h"
#include "data/tokenizers/sentencepiece_model.pb.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

/// Refuses what would give other ids than the library's.
void check_model(const spm::Model& model, const std::string& where) {
  const auto need = [&](bool holds, const char* what) {
    require(holds, ErrorKind::data, where, ": ", what);
  };
  need(model.pieces_size() > 0, "holds no pieces; is it a SentencePiece model?");
  need(model.trainer().model_type() == spm::Trainer::BPE,
       "model_type is not BPE; other SentencePiece models are not supported");
  need(!model.trainer().treat_whitespace_as_suffix(),
       "treat_whitespace_as_suffix is true; only false is supported");
  const spm::Normalizer& normalizer = model.normalizer();
  need(normalizer.precompiled_charsmap().empty(),
       "has a normalisation table; only the identity is supported");
  need(!normalizer.remove_extra_whitespaces(),
       "remove_extra_whitespaces is true; only false is supported");
  need(normalizer.escape_whitespaces(), "escape_whitespaces is false; only true is supported");
}

void read_pieces(const spm::Model& model, TokenizerSpec& spec) {
  for (std::int32_t id = 0; id < model.pieces_size(); ++id) {
    const spm::Piece& piece = model.pieces(id);
    require(!piece.piece().empty() && !find_invalid_utf8(piece.piece()), ErrorKind::data,
            spec.where, ": piece ", id, " is empty or not valid UTF-8");
    spec.model.vocab.add(piece.piece(), id, spec.where);
    const auto type = piece.type();
    if (type == spm::Piece::UNKNOWN) spec.model.unk_token = piece.piece();
    if (type == spm::Piece::NORMAL || type == spm::Piece::BYTE || type == spm::Piece::UNUSED) {
      continue;
    }
    AddedToken token;
    token.content = piece.piece();
    token.id = id;
    token.special = type != spm::Piece::USER_DEFINED;
    spec.added.push_back(std::move(token));
  }
  require(spec.model.unk_token.has_value(), ErrorKind::data, spec.where,
          ": has no piece of the type UNKNOWN");
}

struct ScoredMerge {
  float score;
  std::int32_t piece, left, right;
};

/// SentencePiece joins any two neighbours that form a piece, best score first. As a list of merges:
/// every division of a piece into two, by the piece's score; equal scores in the order of the ids.
void make_merges(const spm::Model& model, TokenizerSpec& spec) {
  const TokenTable& vocab = spec.model.vocab;
  const auto part = [&](std::string_view text) {
    const auto id = vocab.find(text);
    return id && model.pieces(*id).type() == spm::Piece::NORMAL ? *id : -1;
  };
  std::vector<ScoredMerge> merges;
  for (std::int32_t id = 0; id < model.pieces_size(); ++id) {
    const spm::Piece& piece = model.pieces(id);
    if (piece.type() != spm::Piece::NORMAL) continue;
    const std::string_view text = piece.piece();
    for (std::size_t cut = code_point_at(text, 0).length; cut < text.size();
         cut += code_point_at(text, cut).length) {
      const std::int32_t left = part(text.substr(0, cut));
      const std::int32_t right = part(text.substr(cut));
      if (left >= 0 && right >= 0) merges.push_back({piece.score(), id, left, right});
    }
  }
  std::sort(merges.begin(), merges.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::tie(a.piece, a.left, a.right) < std::tie(b.piece, b.left, b.right);
  });
  for (const ScoredMerge& merge : merges) {
    spec.model.merges.emplace_back(vocab[merge.left], vocab[merge.right]);
  }
}

std::optional<std::int32_t> piece_id(const spm::Model& model, std::int32_t id) {
  return id >= 0 && id < model.pieces_size() ? std::optional(id) : std::nullopt;
}

}  // namespace

TokenizerSpec read_sentencepiece(const std::filesystem::path& path, const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = path.string();
  const std::string bytes = files::read_text(path);
  spm::Model model;
  require(model.ParseFromString(bytes), ErrorKind::data, spec.where,
          ": is no SentencePiece model (", bytes.size(),
          " bytes; damaged, cut short or of another kind)");
  check_model(model, spec.where);
  read_pieces(model, spec);
  make_merges(model, spec);
  spec.model.fuse_unk = true;
  spec.model.byte_fallback = model.trainer().byte_fallback();
  spec.bos = piece_id(model, model.trainer().bos_id());
  spec.eos = piece_id(model, model.trainer().eos_id());
  add_sentencepiece_components(spec, model.normalizer().add_dummy_prefix(), config.legacy);

  TokenizerConfig llama = config;
  llama.tokenizer_class = "LlamaTokenizer";
  llama.add_bos_token = config.add_bos_token.value_or(spec.bos.has_value());
  llama.add_eos_token = config.add_eos_token.value_or(false);
  apply_config(llama, spec, false);
  return spec;
}

}  // namespace fathom::data
