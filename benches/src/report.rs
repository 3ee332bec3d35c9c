//! The output of a run: the tables, everything as JSON, and the plots.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    Result,
    args::Bench,
    lines,
    machine::Machine,
    measures::Row,
    plot, table,
    targets::{Verdict, judge},
};

const RESULTS: &str = "results.json";

#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    quick: bool,
    repeats: usize,
    minutes: f64,
    targets: &'a [Verdict],
    rows: &'a [Row],
}

/// The input of the plots.
#[derive(Debug, Deserialize)]
struct Results {
    rows: Vec<Row>,
}

/// Draws the plots of a run that has left its results in this folder.
pub(crate) fn draw(folder: &Path) -> Result<()> {
    let text = std::fs::read_to_string(folder.join(RESULTS))?;
    let results: Results = serde_json::from_str(&text)?;
    pictures(folder, &results.rows)
}

fn pictures(folder: &Path, rows: &[Row]) -> Result<()> {
    for path in plot::draw(folder, rows)? {
        eprintln!("{}", path.display());
    }
    Ok(())
}

/// Returns `true` if all requested targets were met.
pub(crate) fn write(bench: &Bench, machine: &Machine, minutes: f64, rows: &[Row]) -> Result<bool> {
    let targets = judge(bench, rows);
    std::fs::create_dir_all(&bench.out)?;
    let (quick, repeats) = (bench.quick, bench.repeats);
    let report = Report { machine, quick, repeats, minutes, targets: &targets, rows };
    let path = bench.out.join(RESULTS);
    std::fs::write(&path, serde_json::to_string_pretty(&report)?)?;
    let brackets = match repeats {
        1 => String::new(),
        _ => format!("\nIn brackets: the minimum and the maximum of {repeats} repeats.\n"),
    };
    let tables = format!(
        "{}\n{brackets}{}{}{}",
        machine.line(),
        table::markdown(rows),
        table::targets(&targets),
        lines::of_documents(rows)
    );
    std::fs::write(bench.out.join("results.md"), &tables)?;
    print!("{tables}");
    eprintln!("{}", path.display());
    pictures(&bench.out, rows)?;
    if !bench.check {
        return Ok(true);
    }
    let missed: Vec<_> = targets.iter().filter(|verdict| !verdict.met).collect();
    missed.iter().for_each(|verdict| println!("{}", verdict.line()));
    Ok(missed.is_empty())
}
