//! Scripts, on the server's own version of Lua.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use mlua::{Function, Lua, MultiValue, Table, Value};

use crate::{commands, number, reply::Reply, state::State};

/// Functions for scripts in addition to Lua's own library. `...`: calls a command.
const PRELUDE: &str = r"
local raw = ...
local error, pcall, setmetatable, tostring, type = error, pcall, setmetatable, tostring, type
redis = {}
function redis.pcall(...) return (raw(...)) end
function redis.call(...)
    local reply = raw(...)
    if type(reply) == 'table' and reply.err then
        local _, place = pcall(error, '', 3)
        error({ err = reply.err, place = place })
    end
    return reply
end
function redis.error_reply(text) return { err = text } end
function redis.status_reply(text) return { ok = text } end
setmetatable(_G, {
    __index = function(_, name)
        error('Script attempted to access nonexistent global variable \'' .. tostring(name)
            .. '\'', 2)
    end,
    __newindex = function() error('Attempt to modify a readonly table', 2) end,
})
return function(script)
    local done, result = pcall(script)
    if done then return true, result end
    if type(result) == 'table' then return false, result.err, result.place end
    return false, 'ERR ' .. tostring(result), tostring(result)
end
";

/// The first number that is too large for 64 bits.
const FAR: f64 = 9_223_372_036_854_775_808.0;

pub(crate) struct Scripts {
    lua: Lua,
    state: Rc<RefCell<State>>,
    run: Function,
    /// By the hash of the text.
    known: BTreeMap<String, Script>,
}

struct Script {
    run: Function,
    /// The flags on its first line, if it has them.
    flags: Option<String>,
}

impl Script {
    /// Returns the error if the server does not run it now.
    fn refusal(&self, state: &State) -> Option<Reply> {
        let flags = self.flags.as_deref()?;
        if state.is_replica && !flags.contains("no-writes") {
            let text = "READONLY Can not run script with write flag on readonly replica.";
            return Some(Reply::error(text));
        }
        let is_full = state.is_full() && !flags.contains("allow-oom");
        is_full.then(|| {
            Reply::error(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > \
                 'maxmemory'",
            )
        })
    }
}

/// Returns the hash of a script's text, by which it is called.
fn hash_of(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

impl Scripts {
    pub(crate) fn new(state: Rc<RefCell<State>>) -> mlua::Result<Self> {
        let lua = Lua::new();
        let called = Rc::clone(&state);
        let raw = lua.create_function(move |lua, words: MultiValue| {
            let reply = call(&mut called.borrow_mut(), words);
            to_lua(lua, reply.plain())
        })?;
        let run = lua.load(PRELUDE).set_name("@prelude").call::<Function>(raw)?;
        Ok(Self { lua, state, run, known: BTreeMap::new() })
    }

    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    pub(crate) fn knows(&self, hash: &[u8]) -> bool {
        self.known.contains_key(&String::from_utf8_lossy(hash).to_ascii_lowercase())
    }

    /// Loads a script; returns its hash.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<String, Reply> {
        let hash = hash_of(text);
        if self.known.contains_key(&hash) {
            return Ok(hash);
        }
        // The first line may name the engine. It counts as a line.
        let code = match text.iter().position(|byte| *byte == b'\n') {
            Some(end) if text.starts_with(b"#!") => &text[end..],
            _ => text,
        };
        let first = String::from_utf8_lossy(text).lines().next().unwrap_or_default().to_owned();
        let flags = first.starts_with("#!").then_some(first);
        match self.lua.load(code).set_name("@user_script").into_function() {
            Ok(run) => {
                self.known.insert(hash.clone(), Script { run, flags });
                Ok(hash)
            }
            Err(error) => {
                let message = error.to_string();
                let message = message.strip_prefix("syntax error: ").unwrap_or(&message);
                let line = message.lines().next().unwrap_or_default();
                Err(Reply::error(format!("ERR Error compiling script (new function): {line}")))
            }
        }
    }

    /// Runs a known script.
    pub(crate) fn run(&self, hash: &str, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> Reply {
        let Some(script) = self.known.get(hash) else {
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        };
        {
            let mut state = self.state.borrow_mut();
            if let Some(refusal) = script.refusal(&state) {
                return refusal;
            }
            state.may_grow = script.flags.is_some();
        }
        let ran = self.run_on(&script.run, keys, arguments);
        self.state.borrow_mut().may_grow = false;
        match ran {
            Ok(Ok(reply)) => reply,
            Ok(Err((message, place))) => {
                let line: String = place.chars().filter(char::is_ascii_digit).collect();
                Reply::error(format!("{message} script: {hash}, on @user_script:{line}."))
            }
            Err(error) => Reply::error(format!("ERR {error}")),
        }
    }

    fn run_on(
        &self,
        script: &Function,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
    ) -> mlua::Result<Result<Reply, (String, String)>> {
        for (name, words) in [("KEYS", keys), ("ARGV", arguments)] {
            let words = words.iter().map(|word| self.lua.create_string(word));
            let words = words.collect::<mlua::Result<Vec<_>>>()?;
            let table = self.lua.create_sequence_from(words)?;
            self.lua.globals().raw_set(name, table)?;
        }
        let (done, result, place): (bool, Value, Option<String>) = self.run.call(script)?;
        if done {
            return Ok(Ok(to_reply(&result)?));
        }
        let message = result.to_string()?;
        let place = place.unwrap_or_default();
        let place = place.strip_prefix("user_script:").unwrap_or_default();
        let place = place.split(':').next().unwrap_or_default().to_owned();
        Ok(Err((message, place)))
    }
}

/// Runs a command of a script.
fn call(state: &mut State, words: MultiValue) -> Reply {
    let refused = |text: &str| Reply::error(format!("ERR {text}"));
    let words: Option<Vec<Vec<u8>>> = words
        .iter()
        .map(|word| match word {
            Value::String(text) => Some(text.as_bytes().to_vec()),
            Value::Integer(number) => Some(number.to_string().into_bytes()),
            Value::Number(number) => Some(number::written(*number).into_bytes()),
            _ => None,
        })
        .collect();
    let Some(words) = words else {
        return refused("Lua redis lib command arguments must be strings or integers");
    };
    let Some(name) = words.first() else {
        return refused("Please specify at least one argument for this redis lib call");
    };
    let Some(command) = commands::find(name) else {
        return refused("Unknown Redis command called from script");
    };
    if !command.takes(words.len()) {
        return refused("Wrong number of args calling Redis command from script");
    }
    if command.outside {
        return refused("This Redis command is not allowed from script");
    }
    if let Some(refusal) = command.refusal(state) {
        return refusal;
    }
    *state.calls.entry(command.name.to_owned()).or_default() += 1;
    let reply = (command.run)(state, 0, &words);
    state.show("lua", &words);
    reply
}

fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let field = |name: &str, text: &str| {
        let table = lua.create_table()?;
        table.raw_set(name, lua.create_string(text)?)?;
        Ok::<_, mlua::Error>(Value::Table(table))
    };
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Int(number) => Value::Number(number as f64),
        Reply::Text(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(word) => field("ok", &word)?,
        Reply::Error(text) => field("err", &text)?,
        Reply::Array(all) => {
            let all = all.into_iter().map(|each| to_lua(lua, each));
            Value::Table(lua.create_sequence_from(all.collect::<mlua::Result<Vec<_>>>()?)?)
        }
        // The older protocol has no such replies.
        Reply::Double(_) | Reply::Map(_) | Reply::Scored(_) | Reply::Push(_) => Value::Nil,
    })
}

fn to_reply(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        // Truncated; a number that is too large becomes the lowest one, as processors convert it.
        Value::Number(number) if number.abs() >= FAR || number.is_nan() => Reply::Int(i64::MIN),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::text(text.as_bytes()),
        Value::Table(table) => return table_reply(table),
        _ => Reply::Nil,
    })
}

fn table_reply(table: &Table) -> mlua::Result<Reply> {
    if let Some(error) = table.raw_get::<Option<String>>("err")? {
        return Ok(Reply::Error(error));
    }
    if let Some(word) = table.raw_get::<Option<String>>("ok")? {
        return Ok(Reply::Status(word));
    }
    let mut all = Vec::new();
    loop {
        match table.raw_get::<Value>(all.len() + 1)? {
            Value::Nil => return Ok(Reply::Array(all)),
            value => all.push(to_reply(&value)?),
        }
    }
}
