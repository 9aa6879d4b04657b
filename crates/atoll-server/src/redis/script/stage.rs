//! The stack on which an interpreter runs its scripts.
//!
//! | it yields | because | it is entered again with |
//! |---|---|---|
//! | [`Left::Resumed`] | the script has ended, or calls a command | the next script, or the reply |
//! | [`Left::Paused`] | the script has had its turn ([`Watch::pause`]) | nothing |
//!
//! Invariants:
//! - While a script is paused, nothing else uses its interpreter.
//! - A stage is dropped only where no script is paused: one that is, ends before. So its stack is
//!   never unwound through frames of Lua.

use super::interpreter::{Over, Watch};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use mlua::{Lua, MultiValue, Thread, Value};
use std::io;
use std::rc::Rc;

/// As much as a thread has. Lua takes 200 calls of C within each other.
const STACK_BYTES: usize = 2 << 20;

/// Why the stack is entered.
enum Entered {
    /// A script begins, or its command was answered.
    Resumes(Thread, (Value, bool)),
    /// Its pause is over.
    GoesOn,
    /// No further script will run.
    Ends,
}

/// Why the stack was left.
pub(super) enum Left {
    /// What the script returned or yielded.
    Resumed(mlua::Result<MultiValue>),
    /// The worker's other connections are to run.
    Paused,
}

/// The stack of an interpreter.
pub(super) struct Stage {
    stack: Coroutine<Entered, Left, ()>,
    watch: Rc<Watch>,
    is_paused: bool,
}

impl Stage {
    /// That of this interpreter.
    pub(super) fn new(lua: &Lua, watch: Rc<Watch>) -> mlua::Result<Self> {
        let refused = |error: io::Error| mlua::Error::external(error);
        let (lua, seen) = (lua.clone(), watch.clone());
        let stack = Coroutine::with_stack(DefaultStack::new(STACK_BYTES).map_err(refused)?, move |yielder, entered| {
            let mut entered = Some(entered);
            // The function of a scope cannot be called once the scope has ended.
            let ended = lua.scope(|scope| {
                let pause = scope.create_function(|_, ()| {
                    let entered = yielder.suspend(Left::Paused);
                    assert!(matches!(entered, Entered::GoesOn), "a script that is paused goes on");
                    Ok(())
                })?;
                *seen.pause.borrow_mut() = Some(pause);
                while let Some(Entered::Resumes(thread, given)) = entered.take() {
                    entered = Some(yielder.suspend(Left::Resumed(thread.resume(given))));
                }
                Ok(())
            });
            *seen.pause.borrow_mut() = None;
            // Without memory for the function no script runs: each is told so.
            if let Err(error) = ended {
                while let Some(Entered::Resumes(..)) = entered.take() {
                    entered = Some(yielder.suspend(Left::Resumed(Err(error.clone()))));
                }
            }
        });
        Ok(Self { stack, watch, is_paused: false })
    }

    fn enter(&mut self, entered: Entered) -> Left {
        self.is_paused = false;
        let CoroutineResult::Yield(left) = self.stack.resume(entered) else { unreachable!("it ends when it is told") };
        self.is_paused = matches!(left, Left::Paused);
        left
    }

    /// Resumes a script, which is not paused, with these values.
    pub(super) fn resume(&mut self, thread: Thread, given: (Value, bool)) -> Left {
        assert!(!self.is_paused, "a script that is paused is continued");
        self.enter(Entered::Resumes(thread, given))
    }

    /// Continues the script that is paused.
    pub(super) fn go_on(&mut self) -> Left {
        assert!(self.is_paused, "only a script that is paused is continued");
        self.enter(Entered::GoesOn)
    }

    /// Ends the script that is paused, if one is.
    pub(super) fn clear(&mut self) {
        if self.is_paused {
            self.watch.over.set(Some(Over::Killed));
        }
        // It looks at once, and its protected calls do not keep it.
        while self.is_paused {
            self.go_on();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.clear();
        if !self.stack.done() {
            // A stack that was never entered holds only what it was made with.
            if self.stack.started() {
                self.stack.resume(Entered::Ends);
            }
        }
    }
}
