//! ACL: users, and what they may do. What rules mean stands in [`acl`](mod@crate::redis::acl).
//!
//! A connection whose user is removed ends, as does one that has subscribed to what its user may no
//! longer use. `ACL LOAD` ends those of all users but `default`. `ACL SAVE` refuses to overwrite a
//! file that cannot be read as users. `DRYRUN` of a command that this server does not have is
//! refused, although rules may name it.

use super::arguments::{integer, is};
use super::error::{shown, unknown_or_arity};
use super::{CommandError, Context, Id, Outcome, SPECS, subcommand, table};
use crate::redis::acl::user::{User, joined};
use crate::redis::acl::{self, Denial, FileError, NAME_BYTES_MAX, Named, RULES_BYTES_MAX, RuleError};
use crate::redis::channels::Kind;
use crate::redis::resp::Reply;
use atoll_cache::Engine;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The most bits of a password that is made.
const PASSWORD_BITS_MAX: i64 = 4096;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via \
                       the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
                       configuration file set) in order to store users in the Redis configuration.";

/// `ACL subcommand ...`
pub async fn acl<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let name = subcommand::called(c, Id::Acl);
    let users = &c.instance.users;
    match name {
        "cat" => return cat(c),
        "deluser" => return delete(c),
        "dryrun" => return dry_run(c),
        "genpass" => return make_password(c),
        "getuser" => get(c),
        "list" => {
            let all = users.all();
            c.reply.array(all.len());
            all.iter().for_each(|named| c.reply.bulk(&acl::line(&named.name, &named.user)));
        }
        "load" => return std::pin::pin!(load(c)).await,
        "log" => return log(c),
        "save" => return std::pin::pin!(save(c)).await,
        "setuser" => return set(c),
        "users" => {
            let all = users.all();
            c.reply.array(all.len());
            all.iter().for_each(|named| c.reply.bulk(&named.name));
        }
        "whoami" => c.reply.bulk(c.session.standing.name()),
        _ => return subcommand::help(c, Id::Acl),
    }
    Ok(())
}

/// `ACL CAT [category]`
fn cat<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let category = match c.args.len() {
        2 => {
            c.reply.array(acl::CATEGORIES.len());
            acl::CATEGORIES.iter().for_each(|category| c.reply.bulk(category.as_bytes()));
            return Ok(());
        }
        3 => c.args.get(2),
        _ => return Err(unknown_or_arity("ACL", c.args.get(1))),
    };
    if !acl::CATEGORIES.iter().any(|known| is(category, known)) {
        return Err(CommandError::Other(format!("ERR Unknown category '{}'", shown(category, 128))));
    }
    let is_in = |name: &&str| acl::categories(name).any(|own| is(category, own));
    let names: Vec<&str> = subcommand::all_names().filter(is_in).collect();
    c.reply.array(names.len());
    names.iter().for_each(|name| c.reply.bulk(name.as_bytes()));
    Ok(())
}

/// `ACL SETUSER user rule...`
fn set<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let name = c.args.get(2);
    if acl::has_blanks(name) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err("ERR Usernames can't have more than 256 bytes".into());
    }
    if c.args.from(3).map(|rule| rule.len() + 1).sum::<usize>() > RULES_BYTES_MAX {
        return Err(CommandError::Other(format!("ERR Error in ACL SETUSER: {}", RuleError::TooLong)));
    }
    let rules = joined(c.args.from(3)).map_err(|first| {
        let first = shown(first, usize::MAX);
        CommandError::Other(format!("ERR Unmatched parenthesis in acl selector starting at '{first}'."))
    })?;
    let change = |user: &mut User| {
        user.apply_all(rules.iter().map(Vec::as_slice)).map_err(|(rule, why)| {
            let rule = shown(&rule, usize::MAX);
            CommandError::Other(format!("ERR Error in ACL SETUSER modifier '{rule}': {why}"))
        })
    };
    let named = c.instance.users.change(name, change)?;
    end_subscribers(c, &named);
    c.reply.ok();
    Ok(())
}

/// Ends the connections that have subscribed to what their user may not use.
fn end_subscribers<G: Engine>(c: &mut Context<'_, G>, named: &Named) {
    let is_permitted = |id: u64| {
        [Kind::Channel, Kind::Pattern, Kind::Shard].into_iter().all(|kind| {
            let names = c.instance.channels.names_of(kind, id);
            names.iter().all(|name| named.user.permits_channel(name, kind == Kind::Pattern))
        })
    };
    let own = c.session.peer.handle.id;
    for peer in c.instance.peers.living() {
        let handle = &peer.handle;
        if peer.user().0 != named.id || !handle.is_subscriber() || is_permitted(handle.id) {
            continue;
        }
        match handle.id == own {
            true => c.session.closing = true,
            false => _ = handle.end(),
        }
    }
}

/// `ACL DELUSER user...`
fn delete<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.args.from(2).any(|name| name == acl::DEFAULT) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let (users, own) = (&c.instance.users, c.session.peer.handle.id);
    let removed = users.remove(c.args.from(2), &c.instance.peers, own);
    users.refresh(c.session);
    c.reply.count(removed);
    Ok(())
}

/// `ACL GETUSER user`
fn get<G: Engine>(c: &mut Context<'_, G>) {
    let Some(named) = c.instance.users.get(c.args.get(2)) else { return c.reply.null() };
    let user = &named.user;
    c.reply.map(6);
    c.reply.bulk(b"flags");
    c.reply.set(user.flags().count());
    user.flags().for_each(|flag| c.reply.bulk(flag.as_bytes()));
    c.reply.bulk(b"passwords");
    let hashes = user.hashes();
    c.reply.array(hashes.len());
    hashes.for_each(|hash| c.reply.bulk(hash.as_bytes()));
    let mut selectors = user.selectors();
    selectors.next().into_iter().for_each(|fields| show_selector(&mut c.reply, fields));
    c.reply.bulk(b"selectors");
    c.reply.array(selectors.len());
    for fields in selectors {
        c.reply.map(3);
        show_selector(&mut c.reply, fields);
    }
}

fn show_selector(reply: &mut Reply<'_>, fields: [(&str, Vec<u8>); 3]) {
    for (field, text) in fields {
        reply.bulk(field.as_bytes());
        reply.bulk(&text);
    }
}

/// `ACL GENPASS [bits]`
fn make_password<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let bits = match c.args.len() {
        2 => 256,
        3 => integer(c.args.get(2))?,
        _ => return Err(unknown_or_arity("ACL", c.args.get(1))),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        let why = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up \
                   to 4096";
        return Err(why.into());
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(CommandError::Other(format!("ERR the system gives no random bytes: {error}"))),
        }
    }
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    c.reply.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

/// `ACL LOG [count | RESET]`
fn log<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let log = &c.instance.users.log;
    let most = match c.args.len() {
        2 => 10,
        3 if is(c.args.get(2), "reset") => {
            log.clear();
            c.reply.ok();
            return Ok(());
        }
        3 => integer(c.args.get(2))?,
        _ => return Err(unknown_or_arity("ACL", c.args.get(1))),
    };
    let (entries, now) = (log.newest(usize::try_from(most).unwrap_or(0)), Instant::now());
    c.reply.array(entries.len());
    for entry in entries {
        c.reply.map(10);
        c.reply.bulk(b"count");
        c.reply.integer(entry.count as i64);
        for (field, text) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.happened.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            c.reply.bulk(field.as_bytes());
            c.reply.bulk(text);
        }
        c.reply.bulk(b"age-seconds");
        c.reply.double(now.duration_since(entry.at).as_millis() as f64 / 1000.0);
        c.reply.bulk(b"client-info");
        c.reply.bulk(entry.client.as_bytes());
        let ms = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let last = SystemTime::now().checked_sub(now.duration_since(entry.at)).unwrap_or(entry.first);
        for (field, number) in [
            ("entry-id", entry.id as i64),
            ("timestamp-created", ms(entry.first)),
            ("timestamp-last-updated", ms(last)),
        ] {
            c.reply.bulk(field.as_bytes());
            c.reply.integer(number);
        }
    }
    Ok(())
}

/// `ACL DRYRUN user command argument...`
fn dry_run<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (name, args) = (c.args.get(2), c.args.command_at(3));
    let named = c.instance.users.get(name);
    let named =
        named.ok_or_else(|| CommandError::Other(format!("ERR User '{}' not found", shown(name, usize::MAX))))?;
    let unknown = || CommandError::Other(format!("ERR Command '{}' not found", shown(args.get(0), usize::MAX)));
    let id = table::find(args.get(0)).ok_or_else(unknown)?;
    let spec = &SPECS[id as usize];
    if !spec.takes(args.len()) {
        return Err(CommandError::Arity(spec.name));
    }
    if !subcommand::of(id).is_empty() && args.len() > 1 {
        subcommand::check(id, args)
            .map_err(|why| if matches!(why, CommandError::Arity(_)) { why } else { unknown() })?;
    }
    let (what, kind) = match named.user.check(id, args) {
        Ok(()) => {
            c.reply.ok();
            return Ok(());
        }
        Err(Denial::Stranger | Denial::Command) => {
            let name = subcommand::full_name(id, args);
            c.reply.bulk(format!("This user has no permissions to run the '{name}' command").as_bytes());
            return Ok(());
        }
        Err(Denial::Key(place)) => (args.get(place), "key"),
        Err(Denial::Channel(place)) => (args.get(place), "channel"),
    };
    let text = [b"This user has no permissions to access the '", what, format!("' {kind}").as_bytes()].concat();
    c.reply.bulk(&text);
    Ok(())
}

/// Reads or writes the file of users. Other connections do not wait for the disk.
async fn with_file<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, CommandError> {
    let done = tokio::task::spawn_blocking(work).await.expect("work with a file does not panic");
    done.map_err(|error| CommandError::Other(format!("ERR {error}")))
}

/// `ACL LOAD`
async fn load<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let users = &c.instance.users;
    let path = users.file().ok_or(NO_FILE)?.clone();
    let _use = users.file_use.lock().await;
    let read = with_file(move || acl::read(&path)).await?;
    users.replace_all(read, &c.instance.peers, c.session.peer.handle.id);
    users.refresh(c.session);
    if let Some(named) = users.get(acl::DEFAULT) {
        end_subscribers(c, &named);
    }
    c.reply.ok();
    Ok(())
}

/// `ACL SAVE`
async fn save<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let users = &c.instance.users;
    let path = users.file().ok_or(NO_FILE)?.clone();
    let _use = users.file_use.lock().await;
    let mut text = Vec::new();
    for named in users.all() {
        text.extend(acl::line(&named.name, &named.user));
        text.push(b'\n');
    }
    with_file(move || acl::write(&path, &text)).await?;
    c.reply.ok();
    Ok(())
}
