//! The finished trials of a configuration: a file with one line each, and the row of a table.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::Path,
};

use distlock_testkit::Result;

use crate::{checker::Verdict, trial::Trial};

/// The head of the table.
pub(crate) const HEAD: &str = "\
| store | configuration | exclusive | power cuts | then not served | grants | overlaps | \
tokens twice | tokens falling |
|---|---|---|---:|---:|---:|---:|---:|---:|";

/// Returns the finished trials.
pub(crate) fn read(path: &Path) -> Result<Vec<Trial>> {
    let lines = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        lines => lines?,
    };
    // A killed run may have left a part of a line, which a new trial completes.
    lines.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(parse).collect()
}

/// Appends a finished trial.
pub(crate) fn append(path: &Path, trial: &Trial) -> Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    Ok(file.write_all(format(trial).as_bytes())?)
}

fn format(trial: &Trial) -> String {
    let Verdict { grants, overlaps, twice, falling } = trial.verdict;
    let Trial { seed, cuts, broken, exclusive, reasons, .. } = trial;
    format!("{seed} {cuts} {broken} {grants} {overlaps} {twice} {falling} {exclusive} {reasons}\n")
}

fn parse(line: &str) -> Result<Trial> {
    let mut words = line.trim_end_matches('\n').splitn(9, ' ');
    let mut next = || words.next().ok_or_else(|| format!("malformed line: {line}"));
    Ok(Trial {
        seed: next()?.parse()?,
        cuts: next()?.parse()?,
        broken: next()?.parse()?,
        verdict: Verdict {
            grants: next()?.parse()?,
            overlaps: next()?.parse()?,
            twice: next()?.parse()?,
            falling: next()?.parse()?,
        },
        exclusive: next()?.parse()?,
        reasons: next()?.to_owned(),
    })
}

/// Returns the row of the table.
pub(crate) fn row((store, configuration): (&str, &str), trials: &[Trial]) -> String {
    let sum = |number: fn(&Trial) -> u64| trials.iter().map(number).sum::<u64>();
    let exclusive = match trials.first() {
        Some(trial) if trials.iter().all(|it| it.exclusive == trial.exclusive) => {
            if trial.exclusive { "yes" } else { "no" }
        }
        _ => "?",
    };
    format!(
        "| {store} | {configuration} | {exclusive} | {} | {} | {} | {} | {} | {} |",
        sum(|it| it.cuts.into()),
        sum(|it| it.broken.into()),
        sum(|it| it.verdict.grants),
        sum(|it| it.verdict.overlaps),
        sum(|it| it.verdict.twice),
        sum(|it| it.verdict.falling),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_read_back_without_the_last_half() {
        let path = std::env::temp_dir().join(format!("trials-{:x}", fastrand::u64(..)));
        assert!(read(&path).expect("no trials").is_empty());
        let verdict = Verdict { grants: 9, overlaps: 1, twice: 2, falling: 3 };
        let reasons = "fsync is off: turn it on".to_owned();
        let trial = Trial { seed: 1, cuts: 10, broken: 0, verdict, exclusive: false, reasons };
        append(&path, &trial).expect("written");
        let without_reasons = Trial { seed: 2, reasons: String::new(), ..trial.clone() };
        append(&path, &without_reasons).expect("written");
        let mut file = OpenOptions::new().append(true).open(&path).expect("a file");
        file.write_all(b"3 10 0").expect("written");
        let trials = read(&path).expect("trials");
        assert_eq!(format(&trials[0]), format(&trial));
        assert_eq!(trials.iter().map(|trial| trial.seed).collect::<Vec<_>>(), [1, 2]);
        let right = "| redis | no | no | 20 | 0 | 18 | 2 | 4 | 6 |";
        assert_eq!(row(("redis", "no"), &trials), right);
        fs::remove_file(path).expect("removed");
    }
}
