use super::*;

/// Returns the rules of the table in this page, below this heading.
fn documented(page: &str, heading: &str) -> Vec<String> {
    let section = page.split(heading).nth(1).expect("the page has the section");
    let section = section.split("\n## ").next().expect("a section has an end");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
}

#[test]
fn invariant_is_inductive_for_exact_clocks() {
    assert_eq!(prove(&System::new(EXACT, None).expect("it is correct"), EXACT), Ok(true));
}

#[test]
fn invariant_is_inductive_for_clocks_that_drift() {
    assert_eq!(prove(&System::new(DRIFT, None).expect("it is correct"), DRIFT), Ok(true));
}

#[test]
fn every_situation_is_reached() {
    let system = System::new(EXACT, None).expect("it is correct");
    assert_eq!(reach(&system, Shown::Whole), Ok(true));
}

#[test]
fn every_rule_is_needed() {
    for (rule, _) in &System::new(EXACT, None).expect("it is correct").rules {
        assert_eq!(breaks(rule, Shown::Whole), Ok(true), "{rule}");
    }
}

/// The proof fails if the invariant does not say enough.
#[test]
fn induction_fails_without_a_part_of_the_invariant() {
    for (removed, step, fails) in [
        ("nearest", "grant-gone", "no-violation"),
        ("sent-before", "renew", "to-be-trusted"),
        ("ended-at-expiry", "learn-first", "no-violation"),
        ("joined", "learn-first", "excused"),
    ] {
        let mut system = System::new(EXACT, None).expect("it is correct");
        system.invariants.retain(|invariant| &*invariant.name != removed);
        let fails = named(&system.invariants, fails).expect("it is a part of the invariant");
        let mut induction = Induction::new(&system).expect("z3 is installed");
        let step = system.step(step).expect("it is a step");
        let open = induction.consecution(step, &[fails]).expect("z3 answers");
        let verdicts: Vec<_> = open.iter().map(|open| open.verdict).collect();
        assert_eq!(verdicts, [Verdict::Possible], "{removed}");
    }
}

/// An example that does not break a property is noticed.
#[test]
fn history_with_all_rules_breaks_nothing() {
    let system = System::new(EXACT, None).expect("it is correct");
    for example in system.breaks.iter().filter(|example| &*example.rule != ALLOWANCE) {
        let mut search = Search::new(&system, EXACT, Solver::new().expect("z3 is installed"))
            .expect("the system can be translated");
        let found = search.along(&example.history, &system.properties).expect("z3 answers");
        assert!(found.is_none(), "{}", example.rule);
    }
}

#[test]
fn every_rule_has_its_row_in_the_documents() {
    let page = include_str!("../../../../docs/design/model.md");
    let rules = System::new(EXACT, None).expect("it is correct").rules;
    let rules: Vec<_> = rules.iter().map(|(rule, _)| rule.to_string()).collect();
    assert_eq!(documented(page, "\n## Proof"), rules);
}
