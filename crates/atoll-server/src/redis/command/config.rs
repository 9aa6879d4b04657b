//! CONFIG: the parameters of the server. Which there are, and what they do here, is the table of
//! `config`.
//!
//! RESETSTAT lets INFO count from 0 again. What other workers have counted in the last second may
//! be counted afterwards.

use super::error::shown;
use super::{CommandError, Context, Id, Outcome, subcommand};
use crate::redis::config::{self, PARAMETERS, Parameter};
use crate::redis::glob;
use atoll_cache::Engine;

/// `CONFIG subcommand ...`
pub async fn config<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match subcommand::called(c, Id::Config) {
        "get" => get(c),
        "set" => return set(c),
        "resetstat" => {
            super::info::publish(c).await?;
            c.instance.forget_counts(c.shared);
            c.reply.ok();
        }
        "rewrite" => return Err("ERR The server is running without a config file".into()),
        _ => return subcommand::help(c, Id::Config),
    }
    Ok(())
}

fn value<G: Engine>(c: &Context<'_, G>, parameter: &Parameter) -> String {
    parameter.value(&c.instance.config, c.shared, &c.instance.started())
}

/// `CONFIG GET pattern...`
fn get<G: Engine>(c: &mut Context<'_, G>) {
    let asked: Vec<Vec<u8>> = c.args.from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let is_asked =
        |parameter: &&Parameter| asked.iter().any(|pattern| glob::matches(pattern, parameter.name.as_bytes()));
    let found: Vec<&Parameter> = PARAMETERS.iter().filter(is_asked).collect();
    c.reply.map(found.len());
    for parameter in found {
        // A name without pattern comes back as it was written.
        let written = c.args.from(2).find(|name| name.eq_ignore_ascii_case(parameter.name.as_bytes()));
        c.reply.bulk(written.unwrap_or(parameter.name.as_bytes()));
        let value = value(c, parameter);
        c.reply.bulk(value.as_bytes());
    }
}

fn failed(name: &str, why: &str) -> CommandError {
    CommandError::Other(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// `CONFIG SET (parameter value)...`
fn set<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if !c.args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let mut found: Vec<(&'static Parameter, String, &[u8])> = Vec::new();
    let mut rest = c.args.from(2);
    while let (Some(name), Some(text)) = (rest.next(), rest.next()) {
        let Some(parameter) = config::find(name) else {
            let name = shown(name, usize::MAX);
            let why = format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Err(CommandError::Other(why));
        };
        let name = shown(name, usize::MAX);
        if found.iter().any(|(other, ..)| other.name == parameter.name) {
            return Err(failed(&name, "duplicate parameter"));
        }
        found.push((parameter, name, text));
    }
    let mut values = Vec::new();
    for (parameter, name, text) in found {
        let parsed = parameter.parse(text).map_err(|why| failed(&name, &why))?;
        if let Some(why) = parameter.refuses(&parsed, &value(c, parameter)) {
            return Err(failed(&name, why));
        }
        values.push((parameter, parsed));
    }
    config::set(&c.instance.config, c.shared, &c.instance.started(), values)
        .map_err(|(name, why)| failed(name, &why))?;
    c.reply.ok();
    Ok(())
}
