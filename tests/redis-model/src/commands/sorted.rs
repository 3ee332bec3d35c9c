//! Sorted sets.

use super::{Args, not_an_integer, syntax_error};
use crate::{
    keys::Value,
    number,
    reply::Reply,
    sorted::{End, Sorted},
    state::{State, WRONG_TYPE},
};

fn members<'a>(state: &'a mut State, name: &[u8]) -> Result<Option<&'a Sorted>, Reply> {
    match state.key(name).map(|key| &key.value) {
        None => Ok(None),
        Some(Value::Sorted(members)) => Ok(Some(members)),
        Some(_) => Err(Reply::error(WRONG_TYPE)),
    }
}

fn members_mut<'a>(state: &'a mut State, name: &[u8]) -> Result<&'a mut Sorted, Reply> {
    match state.value_mut(name, Value::Sorted(Sorted::default())) {
        Value::Sorted(members) => Ok(members),
        _ => Err(Reply::error(WRONG_TYPE)),
    }
}

fn reply_with<T>(found: Result<T, Reply>, reply: impl FnOnce(T) -> Reply) -> Reply {
    found.map_or_else(|error| error, reply)
}

fn score_end(text: &[u8]) -> Result<End<f64>, Reply> {
    let (text, without) = match text.strip_prefix(b"(") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    match number::float(text) {
        Some(score) if without => Ok(End::Without(score)),
        Some(score) => Ok(End::With(score)),
        None => Err(Reply::error("ERR min or max is not a float")),
    }
}

fn byte_end(text: &[u8]) -> Result<End<Vec<u8>>, Reply> {
    match text.split_first() {
        Some((b'-', [])) => Ok(End::Lowest),
        Some((b'+', [])) => Ok(End::Highest),
        Some((b'[', rest)) => Ok(End::With(rest.to_vec())),
        Some((b'(', rest)) => Ok(End::Without(rest.to_vec())),
        _ => Err(Reply::error("ERR min or max not valid string range item")),
    }
}

fn both<T>(one: &[u8], other: &[u8], read: fn(&[u8]) -> Result<T, Reply>) -> Result<(T, T), Reply> {
    Ok((read(one)?, read(other)?))
}

/// The options after the ends of a range.
#[derive(Default)]
struct Options {
    with_scores: bool,
    /// How many to skip, and how many to return; all if negative.
    limit: Option<(i64, i64)>,
}

impl Options {
    fn read(words: Args<'_>) -> Result<Self, Reply> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"withscores" => options.with_scores = true,
                b"limit" => {
                    let (Some(from), Some(count)) = (words.next(), words.next()) else {
                        return Err(syntax_error());
                    };
                    match (number::integer(from), number::integer(count)) {
                        (Some(from), Some(count)) => options.limit = Some((from, count)),
                        _ => return Err(not_an_integer()),
                    }
                }
                _ => return Err(syntax_error()),
            }
        }
        Ok(options)
    }

    fn reply<'a>(&self, found: impl Iterator<Item = (&'a Vec<u8>, f64)>) -> Reply {
        let (from, count) = self.limit.unwrap_or((0, -1));
        let Ok(from) = usize::try_from(from) else { return Reply::Array(Vec::new()) };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let found = found.skip(from).take(count);
        match self.with_scores {
            true => Reply::Scored(found.map(|(member, score)| (member.clone(), score)).collect()),
            false => Reply::texts(found.map(|(member, _)| member.clone())),
        }
    }
}

pub(super) fn zadd(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let (mut nx, mut xx, mut gt, mut lt, mut changed) = (false, false, false, false, false);
    let mut at = 2;
    while let Some(word) = args.get(at) {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" => nx = true,
            b"xx" => xx = true,
            b"gt" => gt = true,
            b"lt" => lt = true,
            b"ch" => changed = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = &args[at..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return syntax_error();
    }
    if nx && xx {
        return Reply::error("ERR XX and NX options at the same time are not compatible");
    }
    if [nx, gt, lt].into_iter().filter(|given| *given).count() > 1 {
        return Reply::error("ERR GT, LT, and/or NX options at the same time are not compatible");
    }
    let scores: Option<Vec<f64>> =
        pairs.chunks_exact(2).map(|pair| number::float(&pair[0])).collect();
    let Some(scores) = scores.filter(|scores| scores.iter().all(|score| !score.is_nan())) else {
        return Reply::error("ERR value is not a valid float");
    };
    if let Err(error) = members(state, &args[1]) {
        return error;
    }
    let (mut added, mut updated) = (0, 0);
    let done = reply_with(members_mut(state, &args[1]), |members| {
        for (score, pair) in scores.into_iter().zip(pairs.chunks_exact(2)) {
            match members.score(&pair[1]) {
                None if xx => {}
                None => {
                    members.put(&pair[1], score);
                    added += 1;
                }
                Some(had) if nx || gt && score <= had || lt && score >= had => {}
                Some(had) => {
                    members.put(&pair[1], score);
                    updated += usize::from(had != score);
                }
            }
        }
        Reply::count(if changed { added + updated } else { added })
    });
    state.keys.tidy(&args[1]);
    done
}

pub(super) fn zrem(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    match members(state, &args[1]) {
        Ok(None) => return Reply::Int(0),
        Ok(Some(_)) => {}
        Err(error) => return error,
    }
    let removed = reply_with(members_mut(state, &args[1]), |members| {
        Reply::count(args[2..].iter().filter(|member| members.remove(member).is_some()).count())
    });
    state.keys.tidy(&args[1]);
    removed
}

pub(super) fn zremrangebyscore(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let (low, high) = match both(&args[2], &args[3], score_end) {
        Ok(ends) => ends,
        Err(error) => return error,
    };
    let found: Vec<Vec<u8>> = match members(state, &args[1]) {
        Ok(None) => return Reply::Int(0),
        Ok(Some(members)) => {
            members.by_score(&low, &high).map(|(member, _)| member.clone()).collect()
        }
        Err(error) => return error,
    };
    let removed = reply_with(members_mut(state, &args[1]), |members| {
        Reply::count(found.iter().filter(|member| members.remove(member).is_some()).count())
    });
    state.keys.tidy(&args[1]);
    removed
}

pub(super) fn zscore(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(members(state, &args[1]), |members| {
        let score = members.and_then(|members| members.score(&args[2]));
        score.map_or(Reply::Nil, Reply::Double)
    })
}

pub(super) fn zcard(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(members(state, &args[1]), |members| Reply::count(members.map_or(0, Sorted::len)))
}

pub(super) fn zcount(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(both(&args[2], &args[3], score_end), |(low, high)| {
        reply_with(members(state, &args[1]), |members| {
            Reply::count(members.map_or(0, |members| members.by_score(&low, &high).count()))
        })
    })
}

pub(super) fn zlexcount(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    reply_with(both(&args[2], &args[3], byte_end), |(low, high)| {
        reply_with(members(state, &args[1]), |members| {
            Reply::count(members.map_or(0, |members| members.by_bytes(&low, &high).count()))
        })
    })
}

pub(super) fn zrangebylex(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    by_bytes(state, args, (&args[2], &args[3]), false)
}

pub(super) fn zrevrangebylex(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    by_bytes(state, args, (&args[3], &args[2]), true)
}

fn by_bytes(
    state: &mut State,
    args: Args<'_>,
    (low, high): (&[u8], &[u8]),
    backwards: bool,
) -> Reply {
    let options = match Options::read(&args[4..]) {
        Ok(options) if options.with_scores => return syntax_error(),
        Ok(options) => options,
        Err(error) => return error,
    };
    reply_with(both(low, high, byte_end), |(low, high)| {
        reply_with(members(state, &args[1]), |members| {
            let found = members.into_iter().flat_map(|members| members.by_bytes(&low, &high));
            if backwards { options.reply(found.rev()) } else { options.reply(found) }
        })
    })
}

pub(super) fn zrangebyscore(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let options = match Options::read(&args[4..]) {
        Ok(options) => options,
        Err(error) => return error,
    };
    reply_with(both(&args[2], &args[3], score_end), |(low, high)| {
        reply_with(members(state, &args[1]), |members| {
            let found = members.into_iter().flat_map(|members| members.by_score(&low, &high));
            options.reply(found)
        })
    })
}

/// By index; -1 is the last one.
pub(super) fn zrange(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let options = match Options::read(&args[4..]) {
        Ok(options) if options.limit.is_some() => {
            return Reply::error(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            );
        }
        Ok(options) => options,
        Err(error) => return error,
    };
    let (Some(from), Some(to)) = (number::integer(&args[2]), number::integer(&args[3])) else {
        return not_an_integer();
    };
    reply_with(members(state, &args[1]), |members| {
        let Some(members) = members else { return options.reply(std::iter::empty()) };
        let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
        let place = |at: i64| if at < 0 { count + at } else { at };
        let (from, to) = (place(from).max(0), place(to).min(count - 1));
        let many = usize::try_from(to - from + 1).unwrap_or(0);
        options.reply(members.all().skip(usize::try_from(from).unwrap_or(0)).take(many))
    })
}
