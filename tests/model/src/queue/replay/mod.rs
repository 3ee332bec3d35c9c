//! Replays traces of any length, with any number of clients: does the model allow each event?
//!
//! A trace names what is visible from outside: keys, calls, grants and releases. The other steps (a
//! look, a watch, a reply under way) are inferred with the model's own rules, in `waiter.rs`. The
//! steps of a waiter depend only on the keys ahead of its own. So each waiter's possible states are
//! kept apart from those of the others, and the time grows with the number of events. The
//! simulation writes the causes of deletions into a trace. In a trace of real servers, each
//! deletion needs a possible cause.

mod chain;
mod check;
mod facts;
mod mutants;
#[cfg(test)]
mod tests;
mod trace;

use std::{fs, path::Path, time::Instant};

use check::Replay;
use facts::{Facts, spans};
use trace::Line;

/// A trace of a file.
struct Trace<'a> {
    /// What was recorded.
    title: &'a str,
    lines: Vec<Line>,
}

/// The first event that the model does not allow.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    /// The index of the line; the number of lines for the end of the trace.
    at: usize,
    event: String,
    reason: String,
}

/// Returns `true` if the model allows all traces of a file; prints the others. Fails if no trace
/// has a grant, which would prove nothing.
pub(crate) fn all(file: &Path) -> Result<bool, String> {
    let text = read(file)?;
    let (began, mut counts, mut refused) = (Instant::now(), Counts::default(), 0);
    for trace in traces(&text) {
        let trace = trace?;
        counts.add(&trace);
        if let Err(refusal) = follow(&trace.lines, &mut counts.longest) {
            refused += 1;
            println!("{}: {}", trace.title, refusal.text());
        }
    }
    let Counts { traces, events, keys, grants, shortest, longest } = counts;
    let micros = began.elapsed().as_secs_f64() * 1e10 / events.max(1) as f64;
    println!(
        "{traces} traces refused {refused}, {events} events (at least {shortest} each), {keys} \
         keys, at most {longest} in a queue; {micros:.0} µs per 10,000 events"
    );
    if grants == 0 {
        return Err(format!("{}: no lock was granted", file.display()));
    }
    Ok(refused == 0)
}

/// Changes each trace of a file in the ways of [`mutants`], and prints why the model refuses them.
/// Returns `true` if it refuses all of them, and each change was possible in some trace.
pub(crate) fn mutate(file: &Path) -> Result<bool, String> {
    let text = read(file)?;
    let (mut refused, mut accepted) = ([0; mutants::ALL.len()], 0);
    for trace in traces(&text) {
        let Trace { title, lines } = trace?;
        follow(&lines, &mut 0).map_err(|refusal| format!("{title}: {}", refusal.text()))?;
        for ((name, change), refused) in mutants::ALL.iter().zip(&mut refused) {
            match change(&lines).map(|lines| follow(&lines, &mut 0)) {
                None => {}
                Some(Err(refusal)) => {
                    *refused += 1;
                    println!("{title}: {name}: {}", refusal.text());
                }
                Some(Ok(())) => {
                    accepted += 1;
                    println!("{title}: {name}: ACCEPTED");
                }
            }
        }
    }
    for ((name, _), refused) in mutants::ALL.iter().zip(refused) {
        println!("{refused:6} traces refused: {name}");
    }
    Ok(accepted == 0 && !refused.contains(&0))
}

#[derive(Default)]
struct Counts {
    traces: usize,
    events: usize,
    keys: usize,
    grants: usize,
    shortest: usize,
    longest: usize,
}

impl Counts {
    fn add(&mut self, trace: &Trace<'_>) {
        let events = trace.lines.len();
        self.shortest = if self.traces == 0 { events } else { self.shortest.min(events) };
        self.traces += 1;
        self.events += events;
        let is_put = |line: &&Line| matches!(line.event, trace::Event::Put { .. });
        let is_grant = |line: &&Line| matches!(line.event, trace::Event::Granted { .. });
        self.keys += trace.lines.iter().filter(is_put).count();
        self.grants += trace.lines.iter().filter(is_grant).count();
    }
}

impl Refusal {
    fn text(&self) -> String {
        format!("refused at event {}: {}: {}", self.at + 1, self.event, self.reason)
    }
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn traces(text: &str) -> impl Iterator<Item = Result<Trace<'_>, String>> {
    let parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| {
        let (title, lines) = part.split_once('\n').unwrap_or((part, ""));
        let read = |line| Line::read(line).ok_or_else(|| format!("{title}: not an event: {line}"));
        Ok(Trace { title, lines: lines.lines().map(read).collect::<Result<_, String>>()? })
    })
}

/// Replays a trace. `longest`: the most keys in a queue so far.
fn follow(lines: &[Line], longest: &mut usize) -> Result<(), Refusal> {
    let spans = spans(lines);
    let facts = Facts::of(lines, &spans);
    let mut replay = Replay::new(&facts);
    let mut refusals = Vec::new();
    // The clients' events need all changes that may have come before.
    for changes in [true, false] {
        let mut taken = lines
            .iter()
            .zip(&spans)
            .enumerate()
            .filter(|(_, (line, _))| line.event.is_change() == changes);
        refusals.extend(taken.find_map(|(at, (line, span))| {
            let reason = replay.take(line, *span).err()?;
            Some(Refusal { at, event: line.to_string(), reason })
        }));
    }
    *longest = replay.longest().max(*longest);
    let left = replay.end().err().map(|reason| Refusal {
        at: lines.len(),
        event: "the end".into(),
        reason,
    });
    refusals.into_iter().chain(left).min_by_key(|refusal| refusal.at).map_or(Ok(()), Err)
}
