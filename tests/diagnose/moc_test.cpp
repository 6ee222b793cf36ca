// The diagnosis of mixture of control on a model whose Jacobians can be written down whole, column
// by column; and checks that fail when they should.

#include <cmath>
#include <gtest/gtest.h>

#include "diagnose/moc/growth.h"
#include "diagnose/moc/jacobian.h"
#include "diagnose/moc/linear_maps.h"
#include "diagnose/moc/routing.h"
#include "diagnose/moc/routing_term.h"
#include "diagnose/moc/targets.h"
#include "diagnose/text.h"
#include "tests/diagnose/moc_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_device.h"

namespace fathom::diagnose::moc {
namespace {

constexpr std::int64_t kTokens = 4, kElements = kTokens * 16;

class Diagnosis : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    tiny::write_files(files_->path());
    moc_ = tiny::train(files_->path(), "moc", [](train::TrainConfig& c) {
      c.moc = {.enabled = true, .rank = 3, .alpha = 0.6, .top_k = 2};
    });
    normed_ = tiny::train(files_->path(), "normed", [](train::TrainConfig& c) {
      c.moc = {.enabled = true, .rank = 3, .alpha = 0.6, .top_k = 2};
      c.moc.gate_input = methods::moc::GateInput::rmsnorm;
    });
    parallel_ = tiny::train(files_->path(), "parallel", [](train::TrainConfig& c) {
      c.adapter.spec.kind = methods::adapters::Kind::parallel_control;
      c.adapter.spec.rank = 3;
      c.adapter.spec.control_scale = 0.75;
    });
  }
  static void TearDownTestSuite() { delete files_; }

  Diagnosis() : device_(test::make_test_device(std::size_t{1} << 28)) {}

  static data::MicroBatch text() {
    return text_batch(std::vector<std::int32_t>{3, 60, 11, 42}, tiny::kModel.vocab);
  }
  static Passage passage(Subject& subject) {
    Passage result = subject.begin(text());
    record(subject, result, false);
    return result;
  }
  static const Check& check(const Report& report, const std::string& name) {
    for (const Check& one : report.checks)
      if (one.name == name) return one;
    throw std::out_of_range(name);
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
  inline static std::filesystem::path moc_, normed_, parallel_;
  std::unique_ptr<Device> device_;
};

States unit(std::int64_t i) {
  States v(kElements, 0.0f);
  v[static_cast<std::size_t>(i)] = 1;
  return v;
}

// The largest singular value and the Frobenius norm of a matrix given by columns.
struct Dense {
  double norm, frobenius;
};
Dense dense(const std::vector<States>& columns) {
  Matrix m(static_cast<std::int64_t>(columns.size()), kElements);  // transposed
  for (std::int64_t c = 0; c < m.rows; ++c)
    for (std::int64_t r = 0; r < kElements; ++r)
      m.at(c, r) = columns[static_cast<std::size_t>(c)][static_cast<std::size_t>(r)];
  const std::vector<double> values = symmetric_eigen(gram_of_rows(m)).values;
  double squares = 0;
  for (const double value : values) squares += value;
  return {std::sqrt(values.front()), std::sqrt(squares)};
}

double dot(const States& a, const States& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST_F(Diagnosis, RecordsFollowEachOther) {
  for (const auto& checkpoint : {moc_, parallel_}) {
    Subject subject(*device_, checkpoint);
    Passage first = subject.begin(text());
    const auto records = record(subject, first, true);
    ASSERT_EQ(records.size(), 6u);
    for (std::size_t i = 0; i + 1 < records.size(); ++i)
      EXPECT_EQ(records[i].out, records[i + 1].x) << site_name(i);
    for (const SiteRecord& r : records) {  // the control is what its parts make
      double largest = 0;
      for (std::size_t i = 0; i < r.x.size(); ++i) {
        const double parts =
            subject.moc() ? 0.6 * r.own[i] + 0.4 * static_cast<double>(r.routed[i]) : r.own[i];
        EXPECT_NEAR(r.out[i] - static_cast<double>(r.sum[i]), parts, 1e-5);
        largest = std::max(largest, std::abs(parts));
      }
      EXPECT_GT(largest, 1e-3) << "controls that do nothing prove nothing";
    }
  }
}

// <u, J v> = <J^T u, v>: the tape and the differences are of one and the same function.
TEST_F(Diagnosis, ProductsAndTransposedProductsAgree) {
  for (const auto& checkpoint : {moc_, parallel_})
    for (const Part part : {Part::branch, Part::site}) {
      Subject subject(*device_, checkpoint);
      Passage p = passage(subject);
      SiteJacobians maps(subject, p, part);
      std::vector<States> u, v;
      for (std::uint32_t s = 0; s < maps.sites(); ++s) {
        u.push_back(gaussian(kElements, 5, s));
        v.push_back(gaussian(kElements, 6, s));
      }
      const auto forward = maps.forward(v), transposed = maps.transposed(u);
      for (std::size_t s = 0; s < maps.sites(); ++s) {
        const double scale = std::sqrt(dot(u[s], u[s]) * dot(forward[s], forward[s]));
        EXPECT_NEAR(dot(u[s], forward[s]), dot(transposed[s], v[s]), 2e-3 * scale) << site_name(s);
      }
      StackJacobian stack(subject, p);
      const States product = stack.forward(v[0]);
      EXPECT_NEAR(dot(u[0], product), dot(stack.transposed(u[0]), v[0]),
                  2e-3 * std::sqrt(dot(u[0], u[0]) * dot(product, product)));
    }
}

TEST_F(Diagnosis, NormsAreThoseOfTheWholeMatrices) {
  Subject subject(*device_, moc_);
  Passage p = passage(subject);
  const Controls controls = read_controls(moc_);
  Report report;
  report_jacobians(subject, p, controls, {.probes = 400, .iterations = 200}, report);
  const Table& table = report.tables.at(0);
  const auto cell = [&](std::size_t site, const std::string& name) {
    const auto at = std::find(table.columns.begin(), table.columns.end(), name);
    return std::get<double>(
        table.rows.at(site)[static_cast<std::size_t>(at - table.columns.begin())]);
  };
  SiteJacobians branch(subject, p, Part::branch), whole(subject, p, Part::site);
  std::vector<std::vector<States>> branches(6), sites(6);
  std::vector<States> stack_rows;
  StackJacobian stack(subject, p);
  std::vector<double> squares(6, 0.0);
  for (std::int64_t i = 0; i < kElements; ++i) {
    const std::vector<States> same(6, unit(i));
    const auto of_branch = branch.transposed(same), of_site = whole.transposed(same);
    stack_rows.push_back(stack.transposed(unit(i)));
    for (std::size_t s = 0; s < 6; ++s) {
      branches[s].push_back(of_branch[s]);
      sites[s].push_back(of_site[s]);
      squares[s] += stack.squares(s);  // over all unit vectors: |J|_F^2
    }
  }
  for (std::size_t s = 0; s < 6; ++s) {
    // From below, and settled to 1 % a step.
    for (const auto& [name, exact] : {std::pair("branch_norm", dense(branches[s]).norm),
                                      std::pair("site_norm", dense(sites[s]).norm)}) {
      EXPECT_LE(cell(s, name), exact * (1 + 1e-4)) << site_name(s) << " " << name;
      EXPECT_GE(cell(s, name), exact * 0.9) << site_name(s) << " " << name;
    }
    const double gain = std::sqrt(squares[s] / kElements);
    EXPECT_NEAR(cell(s, "gain_to_end"), gain, 4 * cell(s, "gain_error")) << site_name(s);
    EXPECT_LT(cell(s, "gain_error"), 0.1 * gain);
  }
  const double norm = dense(stack_rows).norm;
  EXPECT_NEAR(check(report, "jacobian_norm").measured, norm, 0.05 * norm);
  EXPECT_EQ(report.exit_code(), 0) << summary_text(report);
}

// What holding the routing leaves out, by differences of runs that decide anew.
TEST_F(Diagnosis, RoutingTermIsTheNormOfTheRest) {
  for (const auto& checkpoint : {moc_, normed_}) {
    SCOPED_TRACE(checkpoint);
    Subject subject(*device_, checkpoint);
    Passage held = passage(subject);
    const Shape shape{kTokens, tiny::kModel.hidden};
    const States x = to_host(subject.embed(held));
    const auto after_first_site = [&](Passage& p, const States& states) {
      States out;
      subject.run(p, nullptr, autograd::Var(Tensor::from_host(*device_, shape, states)),
                  [&](const SiteCall& call) {
                    autograd::Var next = call.apply();
                    if (call.index() == 0) out = to_host(next.value);
                    return next;
                  });
      return out;
    };
    const double share = checkpoint == normed_ ? 0.02 : 0.1;  // a norm is far from linear
    double step = 0;
    for (const float value : x) step = std::max(step, share * std::abs(static_cast<double>(value)));
    std::vector<States> columns;
    for (std::int64_t i = 0; i < kElements; ++i) {
      States column(kElements, 0.0f);
      for (const double side : {1.0, -1.0}) {
        States moved = x;
        moved[static_cast<std::size_t>(i)] += static_cast<float>(side * step);
        Passage fresh = subject.begin(text());
        const States again = after_first_site(fresh, moved), kept = after_first_site(held, moved);
        ASSERT_EQ(fresh.decisions.at(0)->groups[0].experts,
                  held.decisions.at(0)->groups[0].experts);
        for (std::size_t e = 0; e < column.size(); ++e)
          column[e] +=
              static_cast<float>(side * (static_cast<double>(again[e]) - kept[e]) / (2 * step));
      }
      columns.push_back(std::move(column));
    }
    double term = 0;
    subject.run(held, nullptr, autograd::Var(subject.embed(held)), [&](const SiteCall& call) {
      if (call.index() == 0) term = routing_term(subject, held, call);
      return call.apply();
    });
    EXPECT_GT(term, 0);
    EXPECT_NEAR(term, dense(columns).norm, 0.02 * term);
  }
}

TEST_F(Diagnosis, GrowthStaysWithinItsBoundsAndSaysWhenItDoesNot) {
  for (const auto& checkpoint : {moc_, parallel_}) {
    Subject subject(*device_, checkpoint);
    Passage p = subject.begin(text());
    const auto records = record(subject, p, false);
    Controls controls = read_controls(checkpoint);
    const auto report_with = [&](double factor) {
      Controls scaled = controls;
      for (Control& control : scaled.controls) {
        for (double& value : control.singular_values) value *= factor;
        control.factors = 0;
      }
      Growth growth(scaled, subject.sites());
      growth.add(p, records);
      Report report;
      growth.report(report);
      return report;
    };
    const Report sound = report_with(1 + 1e-4);
    EXPECT_TRUE(check(sound, "growth").holds) << summary_text(sound);
    EXPECT_TRUE(check(sound, "control").holds) << summary_text(sound);
    const Report broken = report_with(0.05);
    EXPECT_FALSE(check(broken, "control").holds) << summary_text(broken);
    EXPECT_EQ(broken.exit_code(), 1);
  }
}

// Norms 1, 2, 3 by layer and then 3, 2, 1: what one order allows the other does not.
TEST_F(Diagnosis, OperatorNormsOfWhatIsChosenAreCompared) {
  Subject subject(*device_, moc_);
  Passage p = subject.begin(text());
  const auto records = record(subject, p, false);
  double chosen = 0;  // mean over sites of the weighted layer number
  for (const auto& [site, decision] : p.decisions)
    for (std::size_t j = 0; j < 2; ++j)
      chosen += decision->groups[0].weights[j] * (1.0 + decision->groups[0].experts[j]) / 6;
  ASSERT_GT(std::abs(chosen - 2), 1e-3);
  for (const bool rising : {true, false}) {
    Controls controls = read_controls(moc_);
    for (Control& control : controls.controls)
      control.singular_values = {rising ? 1.0 + static_cast<double>(control.layer)
                                        : 3.0 - static_cast<double>(control.layer)};
    Growth growth(controls, subject.sites());
    growth.add(p, records);
    Report report;
    growth.report(report);
    const Check& condition = check(report, "operator_norms");
    const double expected = rising ? chosen : 4 - chosen;
    EXPECT_NEAR(condition.measured, expected, 1e-6);
    EXPECT_NEAR(condition.bound, 2, 1e-12);
    EXPECT_EQ(condition.holds, expected < 2);
  }
}

TEST_F(Diagnosis, TargetsAreWhatAnotherRunAdds) {
  Subject subject(*device_, moc_);
  const Controls controls = read_controls(moc_);
  Passage p = subject.begin(text());
  const auto records = record(subject, p, true);
  for (const auto& rival : {moc_, parallel_}) {
    Subject other(*device_, rival);
    TargetErrors errors(controls, subject.sites());
    const auto answers = answers_to(other, text(), records);
    errors.add(records, answers);
    Report report;
    errors.report(report);
    EXPECT_TRUE(check(report, "target_error").holds) << summary_text(report);
    ASSERT_EQ(report.tables[0].rows.size(), 6u);
    for (const auto& row : report.tables[0].rows) {
      EXPECT_GT(std::get<double>(row[2]), 1e-3) << "the target";
      if (rival == moc_) {
        EXPECT_LT(std::get<double>(row[5]), 1e-6) << "itself";
      } else {
        EXPECT_GT(std::get<double>(row[5]), 1e-3);
      }
    }
  }
  // A mixture that is none: the answers are right, what the model did is not.
  auto wrong = records;
  for (float& value : wrong[3].out) value *= 2;
  TargetErrors errors(controls, subject.sites());
  errors.add(wrong, answers_to(subject, text(), records));
  Report report;
  errors.report(report);
  EXPECT_FALSE(check(report, "target_error").holds);
  EXPECT_EQ(check(report, "target_error").worst, "layer 1, mlp");
}

TEST_F(Diagnosis, RoutingIsCounted) {
  Subject subject(*device_, moc_);
  RoutingUse use(subject);
  Passage p = passage(subject), other = passage(subject);
  auto changed = std::make_shared<methods::moc::Decision>(*other.decisions.at(2));
  changed->groups[0].experts = {0, 1};
  const bool flips =
      std::set<int>{0, 1} != std::set<int>(p.decisions.at(2)->groups[0].experts.begin(),
                                           p.decisions.at(2)->groups[0].experts.end());
  other.decisions[2] = changed;
  use.add(p, &other);
  Report report;
  use.report(report);
  const Table &routing = report.tables.at(0), &usage = report.tables.at(1);
  ASSERT_EQ(routing.rows.size(), 6u);
  for (std::size_t site = 0; site < 6; ++site)
    EXPECT_EQ(std::get<double>(routing.rows[site].back()), site == 2 && flips ? 1 : 0) << site;
  ASSERT_EQ(usage.rows.size(), 18u);
  for (std::size_t site = 0; site < 6; ++site) {
    double shares = 0, token_shares = 0;
    for (std::size_t e = 0; e < 3; ++e) {
      const auto& row = usage.rows[3 * site + e];
      const auto& experts = p.decisions.at(site)->groups[0].experts;
      const bool taken = std::count(experts.begin(), experts.end(), static_cast<int>(e)) > 0;
      EXPECT_EQ(std::get<double>(row[3]), taken ? 0.5 : 0);
      shares += std::get<double>(row[3]);
      token_shares += std::get<double>(row[5]);
    }
    EXPECT_NEAR(shares, 1, 1e-12);
    EXPECT_NEAR(token_shares, 1, 1e-12);
  }
}

// Methods without sites of their own, or none that add to the residual stream.
TEST_F(Diagnosis, RefusesWhatChangesWholeBlocks) {
  using methods::adapters::Kind;
  for (const Kind kind : {Kind::loreft, Kind::molex}) {
    const std::string name = methods::adapters::to_string(kind);
    const auto checkpoint = tiny::train(files_->path(), name, [&](train::TrainConfig& c) {
      c.adapter.spec.kind = kind;
      c.adapter.spec.rank = 3;
    });
    testing::expect_error(
        ErrorKind::config, [&] { Subject(*device_, checkpoint); }, checkpoint.string(), name,
        "behind whole blocks");
  }
}

TEST_F(Diagnosis, FrontsOfTexts) {
  EXPECT_EQ(front_of(text(), 3).ids, (std::vector<std::int32_t>{3, 60, 11}));
  EXPECT_EQ(front_of(text(), 3).cu_seqlens, (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(front_of(text(), 9).ids, text().ids);
  testing::expect_error(
      ErrorKind::data, [] { text_batch({}, 5); }, "no token");
}

}  // namespace
}  // namespace fathom::diagnose::moc
