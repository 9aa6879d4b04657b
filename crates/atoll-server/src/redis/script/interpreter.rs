//! The Lua interpreter of a worker: what scripts see, and what they may use up.
//!
//! A script sees no file, no process and no network; `prelude.lua` lists what it sees. What it sees
//! cannot be changed, so that a script cannot disturb the next one.
//!
//! | a script uses up | limit | checked |
//! |---|---|---|
//! | memory | [`MEMORY_BYTES_MAX`] for all scripts of a worker | by the interpreter, at each allocation |
//! | time | `script-time-max` | every [`INSTRUCTIONS`] instructions, in each match of a pattern, and by functions that do much in one instruction |
//!
//! Where the time is looked at, a script that has had its turn pauses, so that its worker serves
//! its other connections: they may end the script. Lua 5.1 cannot yield there. So an interpreter
//! runs its scripts on a stack of its own, which is left and entered again ([`Stage`]).

use super::bits;
use super::json;
use super::msgpack;
use super::pattern;
use super::stage::Stage;
use super::structs;
use crate::redis::command::info::REDIS_VERSION;
use crate::redis::isolation::TURN_TIME;
use crate::redis::resp::Protocol;
use mlua::debug::{Debug, HookTriggers};
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, LightUserData, Lua, LuaOptions, StdLib, Table, Value, VmState};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Most bytes that the scripts of a worker hold.
pub(super) const MEMORY_BYTES_MAX: usize = 256 << 20;
/// The collector begins again when the memory has grown to this percentage of what is in use.
const COLLECTED_PERCENT: i32 = 150;
/// How often the time is looked at. One instruction may copy a text as long as the memory permits.
const INSTRUCTIONS: u32 = 1000;
/// Compiled scripts that an interpreter keeps.
const COMPILED_MAX: usize = 1024;

/// The value that the prelude yields in front of a command that it only asks about.
pub(super) const ASKS: Value = Value::LightUserData(LightUserData(std::ptr::dangling_mut()));

/// Why a script must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Killed,
    TooLong,
}

impl Over {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Killed => "Script killed by user with SCRIPT KILL...",
            Self::TooLong => "Script ran longer than script-time-max and was ended.",
        }
    }
}

/// What the hook looks at.
#[derive(Default)]
pub(super) struct Watch {
    ends: Cell<Option<Instant>>,
    /// When the script pauses next, while it runs.
    pauses: Cell<Option<Instant>>,
    /// Pauses the script. It returns when the script goes on.
    pub(super) pause: RefCell<Option<Function>>,
    pub(super) over: Cell<Option<Over>>,
    /// The line at which the script was when that was found, if it is known.
    pub(super) line: Cell<Option<usize>>,
}

/// How many functions that have called each other are looked at for one of the script.
const FRAMES_MAX: usize = 16;

/// The line of the script that runs. Functions of the prelude may run for it.
fn line_of_the_script(lua: &Lua) -> Option<usize> {
    (0..FRAMES_MAX).find_map(|level| {
        let line = |frame: &Debug<'_>| {
            frame.current_line().filter(|_| frame.source().short_src.as_deref() == Some("user_script"))
        };
        lua.inspect_stack(level, line)?
    })
}

impl Watch {
    /// Looks at the time; an error if the script is to end.
    fn check(&self, is_killed: &AtomicBool) -> mlua::Result<()> {
        self.look(is_killed).map_or(Ok(()), |over| Err(mlua::Error::runtime(over.text())))
    }

    /// Looks at the time, and whether the script is to be killed.
    fn look(&self, is_killed: &AtomicBool) -> Option<Over> {
        if self.over.get().is_none() {
            let now = Instant::now();
            if self.pauses.get().is_some_and(|pauses| now >= pauses) {
                self.pause();
            }
            if is_killed.load(Relaxed) {
                self.over.set(Some(Over::Killed));
            } else if self.ends.get().is_some_and(|ends| now >= ends) {
                self.over.set(Some(Over::TooLong));
            }
        }
        self.over.get()
    }

    /// Lets the worker's other connections run.
    fn pause(&self) {
        let pause = self.pause.borrow().clone();
        // A script without memory for the call pauses when it has some again.
        if let Some(pause) = pause {
            let _ = pause.call::<()>(());
        }
        // It may have ended meanwhile.
        if self.pauses.get().is_some() {
            self.pauses.set(Some(Instant::now() + TURN_TIME));
        }
    }
}

/// An interpreter.
pub(super) struct Interpreter {
    pub(super) lua: Lua,
    environment: Table,
    /// The globals behind the environment.
    globals: Table,
    /// Runs a script, and returns what it returns or raises.
    pub(super) run: Function,
    /// Where scripts run. Dropped before `lua`, which it uses.
    pub(super) stage: RefCell<Stage>,
    compiled: HashMap<[u8; 20], Function>,
    /// The form of the replies to its commands, which a script may change for itself.
    pub(super) protocol: Rc<Cell<Protocol>>,
    pub(super) watch: Rc<Watch>,
    /// The bytes of all interpreters, and what this one has in it.
    bytes: Arc<AtomicUsize>,
    bytes_counted: Cell<usize>,
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl Interpreter {
    /// A new one, whose scripts end once `is_killed` is set. It adds to `bytes` what it has.
    pub(super) fn new(is_killed: Arc<AtomicBool>, bytes: Arc<AtomicUsize>) -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
        let watch = Rc::new(Watch::default());
        let native = lua.create_table()?;
        let check = || {
            let (looked, killed) = (watch.clone(), is_killed.clone());
            move || looked.check(&killed)
        };
        native.set("asks", ASKS)?;
        native.set("version", REDIS_VERSION)?;
        let created = Instant::now();
        native.set("clock", lua.create_function(move |_, ()| Ok(created.elapsed().as_secs_f64()))?)?;
        let looked = check();
        native.set("look", lua.create_function(move |_, ()| looked())?)?;
        let looked = check();
        let hashed = move |_: &Lua, text: mlua::LuaString| {
            looked()?;
            Ok(super::hex(&super::digest(&text.as_bytes())))
        };
        native.set("sha1hex", lua.create_function(hashed)?)?;
        let seen = watch.clone();
        native.set("is_over", lua.create_function(move |_, ()| Ok(seen.over.get().is_some()))?)?;
        // Bytes of a compiled function are taken on trust by Lua: only text is compiled.
        let looked = check();
        let compile = move |lua: &Lua, (text, name): (mlua::LuaString, Option<String>)| {
            looked()?;
            let text = text.as_bytes().to_vec();
            let name = name.unwrap_or_else(|| String::from_utf8_lossy(&text).into_owned());
            let chunk = lua.load(text).set_name(name).set_mode(mlua::chunk::ChunkMode::Text);
            Ok(match chunk.into_function() {
                Ok(function) => (Some(function), None),
                Err(error) => (None, Some(super::reply::said(&error).into_owned())),
            })
        };
        native.set("compile", lua.create_function(compile)?)?;
        let protocol = Rc::new(Cell::new(Protocol::default()));
        let chosen = protocol.clone();
        let choose = move |_: &Lua, version: i64| {
            chosen.set(if version == 3 { Protocol::Resp3 } else { Protocol::Resp2 });
            Ok(())
        };
        native.set("setresp", lua.create_function(choose)?)?;
        native.set("cjson", json::library(&lua, check())?)?;
        native.set("cmsgpack", msgpack::library(&lua, check())?)?;
        native.set("struct", structs::library(&lua, check())?)?;
        native.set("bit", bits::library(&lua)?)?;
        let (looked, killed) = (watch.clone(), is_killed.clone());
        native.set("find", pattern::find(&lua, move || looked.look(&killed).map(Over::text))?)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
        let (environment, globals, run) = prelude.call::<(Table, Table, Function)>(native)?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        // Step by step Lua 5.1 would clear 2 KiB in an instruction that may allocate megabytes: it
        // collects all at once.
        let collected = GcMode::Incremental(GcIncParams::default().pause(COLLECTED_PERCENT).step_multiplier(0));
        lua.gc_set_mode(collected);
        let looked = check();
        let found = watch.clone();
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |lua, _| {
            looked().map(|()| VmState::Continue).inspect_err(|_| {
                if found.line.get().is_none() {
                    found.line.set(line_of_the_script(lua));
                }
            })
        })?;
        let (compiled, bytes_counted) = (HashMap::new(), Cell::new(0));
        let stage = RefCell::new(Stage::new(&lua, watch.clone())?);
        Ok(Self { lua, environment, globals, run, stage, compiled, protocol, watch, bytes, bytes_counted })
    }

    /// Whether a script can be compiled.
    pub(super) fn check(text: &[u8]) -> mlua::Result<()> {
        let lua = Lua::new_with(StdLib::NONE, LuaOptions::new())?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        lua.load(text).set_name("@user_script").set_mode(mlua::chunk::ChunkMode::Text).into_function().map(|_| ())
    }

    /// Compiles a script, unless it has done so before.
    pub(super) fn compile(&mut self, digest: [u8; 20], text: &[u8]) -> mlua::Result<Function> {
        if let Some(function) = self.compiled.get(&digest) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(text).set_name("@user_script").set_mode(mlua::chunk::ChunkMode::Text);
        let function = chunk.set_environment(self.environment.clone()).into_function()?;
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
        }
        self.compiled.insert(digest, function.clone());
        Ok(function)
    }

    /// Prepares a run with these arguments, which ends after `time` at the latest if there is one.
    pub(super) fn begin<'a>(
        &self,
        time: Option<Duration>,
        keys: impl Iterator<Item = &'a [u8]>,
        args: impl Iterator<Item = &'a [u8]>,
    ) -> mlua::Result<()> {
        let strings = |all: &mut dyn Iterator<Item = &'a [u8]>| -> mlua::Result<Table> {
            let table = self.lua.create_table()?;
            for text in all {
                table.raw_push(self.lua.create_string(text)?)?;
            }
            Ok(table)
        };
        self.globals.raw_set("KEYS", strings(&mut { keys })?)?;
        self.globals.raw_set("ARGV", strings(&mut { args })?)?;
        self.watch.over.set(None);
        self.watch.line.set(None);
        self.protocol.set(Protocol::default());
        let now = Instant::now();
        self.watch.ends.set(time.and_then(|time| now.checked_add(time)));
        self.watch.pauses.set(Some(now + TURN_TIME));
        Ok(())
    }

    /// Whether its scripts have left so much that another interpreter is cheaper than to go on.
    pub(super) fn is_spent(&self) -> bool {
        self.watch.over.get().is_some() || self.lua.used_memory() > MEMORY_BYTES_MAX / 2
    }

    /// Counts this one with so many bytes.
    fn count(&self, bytes: usize) {
        let counted = self.bytes_counted.replace(bytes);
        self.bytes.fetch_add(bytes, Relaxed);
        self.bytes.fetch_sub(counted, Relaxed);
    }

    /// Forgets what the last run left.
    pub(super) fn end(&self) {
        self.count(self.lua.used_memory());
        self.watch.ends.set(None);
        self.watch.pauses.set(None);
        let _ = self.globals.raw_set("KEYS", mlua::Nil).and_then(|()| self.globals.raw_set("ARGV", mlua::Nil));
    }
}
