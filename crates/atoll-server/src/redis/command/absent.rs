//! Commands of parts of Redis that this server does not have. Clients and tools ask them to find
//! that out: such questions are answered, and what would change something is refused.
//!
//! | part | answered |
//! |---|---|
//! | replication | ROLE, WAIT: a master without replicas |
//! | persistence | LASTSAVE: the start of the server |
//! | modules, functions | LIST, STATS: there are none |
//! | cluster | refused: this server is in none. How many arguments a subcommand has is not looked at |
//! | lists, sets | SORT, SORT_RO: nothing to sort in a key that is absent; other keys hold another kind |

use super::arguments::{integer, is};
use super::error::unknown_subcommand;
use super::{CommandError, Context, Id, Outcome, subcommand};
use crate::redis::acl;
use atoll_cache::Engine;
use std::time::{SystemTime, UNIX_EPOCH};

/// `ROLE`
pub async fn role<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    c.reply.array(3);
    c.reply.bulk(b"master");
    c.reply.integer(0);
    c.reply.array(0);
    Ok(())
}

/// `WAIT replicas milliseconds`: no replica will ever have it.
pub async fn wait<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    integer(c.args.get(1))?;
    let timeout_ms = integer(c.args.get(2)).map_err(|_| "ERR timeout is not an integer or out of range")?;
    if timeout_ms < 0 {
        return Err("ERR timeout is negative".into());
    }
    c.reply.integer(0);
    Ok(())
}

/// `LASTSAVE`
pub async fn lastsave<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    c.reply.integer(now.saturating_sub(c.shared.started.elapsed()).as_secs() as i64);
    Ok(())
}

/// `MODULE subcommand`
pub async fn module<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match subcommand::called(c, Id::Module) {
        "list" => c.reply.array(0),
        _ => return subcommand::help(c, Id::Module),
    }
    Ok(())
}

/// `FUNCTION subcommand`
pub async fn function<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match subcommand::called(c, Id::Function) {
        "list" => c.reply.array(0),
        "stats" => {
            c.reply.map(2);
            c.reply.bulk(b"running_script");
            c.reply.null();
            c.reply.bulk(b"engines");
            c.reply.map(1);
            c.reply.bulk(b"LUA");
            c.reply.map(2);
            for field in ["libraries_count", "functions_count"] {
                c.reply.bulk(field.as_bytes());
                c.reply.integer(0);
            }
        }
        _ => return subcommand::help(c, Id::Function),
    }
    Ok(())
}

/// `CLUSTER ...`, and what only nodes of a cluster do.
pub async fn cluster<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.spec.name == "cluster" {
        let subcommand = String::from_utf8_lossy(c.args.get(1)).to_ascii_lowercase();
        if !acl::is_command(&format!("cluster|{subcommand}")) {
            return Err(unknown_subcommand("CLUSTER", c.args.get(1)));
        }
    }
    Err("ERR This instance has cluster support disabled".into())
}

/// `DEBUG ...`: there is nothing to debug in a server that others use.
pub async fn debug<G: Engine>(_: &mut Context<'_, G>) -> Outcome {
    Err("ERR DEBUG command not allowed. This server has no subcommands of DEBUG.".into())
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern...] [ASC | DESC] [ALPHA]`, and
/// `SORT_RO` alike.
pub async fn sort<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let mut rest = c.args.from(2);
    while let Some(word) = rest.next() {
        let words = match () {
            () if ["asc", "desc", "alpha"].iter().any(|name| is(word, name)) => 0,
            () if is(word, "limit") => 2,
            () if is(word, "by") || is(word, "get") => 1,
            () if is(word, "store") && c.spec.name == "sort" => {
                return Err("ERR SORT stores no list: this server has none".into());
            }
            () => return Err(CommandError::Syntax),
        };
        for _ in 0..words {
            let operand = rest.next().ok_or(CommandError::Syntax)?;
            if words == 2 {
                integer(operand)?;
            }
        }
    }
    let meta = c.cache.peek(&c.key(1)).await?;
    c.looked(c.args.get(1), meta.is_some());
    if meta.is_some() {
        return Err(CommandError::WrongKind);
    }
    c.reply.array(0);
    Ok(())
}
