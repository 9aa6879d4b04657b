//! Scripts without a server: for tests that run any text as one.

use super::interpreter::Interpreter;
use super::reply;
use super::stage::Left;
use crate::redis::resp::{Protocol, Reply};
use crate::serve::Output;
use mlua::Value;
use std::fmt;
use std::time::Duration;

/// An interpreter, as a worker has one.
pub struct Sandbox(Interpreter);

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A new one.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn new() -> Self {
        Self(Interpreter::new(Default::default(), Default::default()).expect("memory for an interpreter"))
    }

    /// Runs a script for so long at most, and gives its reply, or the words of its error. Each
    /// command that it calls fails, and pauses end at once.
    pub fn run(&mut self, script: &[u8], args: &[&[u8]], time: Duration) -> Result<Vec<u8>, String> {
        if self.0.is_spent() {
            *self = Self::new();
        }
        let outcome = self.play(script, args, time);
        self.0.end();
        outcome.map_err(|error| reply::said(&error).into_owned())?
    }

    fn play(&mut self, script: &[u8], args: &[&[u8]], time: Duration) -> mlua::Result<Result<Vec<u8>, String>> {
        let interpreter = &mut self.0;
        let function = interpreter.compile(super::digest(script), script)?;
        interpreter.begin(Some(time), std::iter::empty(), args.iter().copied())?;
        let thread = interpreter.lua.create_thread(interpreter.run.clone())?;
        let mut stage = interpreter.stage.borrow_mut();
        let mut given = (Value::Function(function), false);
        loop {
            let mut left = stage.resume(thread.clone(), given);
            let mut values = loop {
                match left {
                    Left::Resumed(values) => break values?,
                    Left::Paused => left = stage.go_on(),
                }
            };
            if !thread.is_resumable() {
                let is_well = values.pop_front() == Some(Value::Boolean(true));
                let value = values.pop_front().unwrap_or(Value::Nil);
                let (mut output, protocol) = (Output::default(), interpreter.protocol.get());
                return match is_well {
                    true => {
                        let written = reply::write(&mut Reply::new(&mut output, Protocol::Resp2), &value, protocol);
                        written.map(|()| Ok(output.to_vec()))
                    }
                    false => Ok(Err(reply::raised(&value, "", None))),
                };
            }
            given = (reply::error_table(&interpreter.lua, "ERR there is no server")?, true);
        }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its own stack is part of what it gives back.
    #[test]
    fn an_interpreter_that_is_dropped_leaves_nothing() {
        // Other tests of a process use its memory, too.
        const ALONE: &str = "ATOLL_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = std::thread::current().name().expect("a test has a name").to_owned();
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let output = alone.args([&name, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let resident_kib = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let many = || {
            for number in 0..300 {
                let mut sandbox = Sandbox::new();
                let script: &[u8] = if number % 2 == 0 { b"return {}" } else { b"while true do end" };
                let _ = sandbox.run(script, &[], Duration::from_millis(number % 4));
            }
        };
        many();
        let before = resident_kib();
        (0..4).for_each(|_| many());
        // Each has some hundred.
        let more = resident_kib().saturating_sub(before);
        assert!(more < 50_000, "{more} KiB more after 1200 interpreters");
    }

    #[test]
    fn a_script_replies_fails_or_is_ended() {
        let (mut sandbox, time) = (Sandbox::new(), Duration::from_millis(50));
        assert_eq!(sandbox.run(b"return ARGV[1]", &[b"a"], time), Ok(b"$1\r\na\r\n".to_vec()));
        assert!(sandbox.run(b"return redis.call('get', 'a')", &[], time).unwrap_err().contains("no server"));
        assert!(sandbox.run(b"while true do end", &[], time).unwrap_err().contains("was ended"));
        assert!(sandbox.run(b"return x", &[], time).unwrap_err().contains("nonexistent global variable"));
        assert_eq!(sandbox.run(b"return 1", &[], time), Ok(b":1\r\n".to_vec()));
    }
}
