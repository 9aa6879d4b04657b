//! The commands that a selector permits.
//!
//! | rule | commands permitted, or with `-` refused |
//! |---|---|
//! | `+@all`, `allcommands` | all, and those that later versions will have |
//! | `-@all`, `nocommands` | with either verb: none |
//! | `+@category` | those of the category, with all subcommands of its containers |
//! | `+command` | the command, with its subcommands |
//! | `+command|sub` | a subcommand; of a command without subcommands: if its first argument is `sub` (only `+`) |
//!
//! A description begins with all commands or with none. Then come the categories that fit best, and
//! the single commands that are left. As in Redis 7.0 it is made from the commands that are
//! permitted, whatever the rules were. Single commands are in the order of their names; Redis 7.0
//! has them in the order of a table, which is another one in each process.

use super::catalog::{self, Bits, CATEGORIES, WORDS};
use super::{RuleError, has_blanks};
use std::collections::BTreeMap;

/// Which commands are permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commands {
    permitted: Bits,
    /// Whether commands of later versions will be permitted.
    is_open: bool,
    /// First arguments with which a command is permitted that is not, by the command's place. A
    /// command that is permitted has none.
    first_args: BTreeMap<usize, Vec<Box<[u8]>>>,
}

fn count(bits: &Bits, of: &Bits) -> u32 {
    bits.iter().zip(of).map(|(one, other)| (one & other).count_ones()).sum()
}

fn apply_mask(bits: &mut Bits, mask: &Bits, permits: bool) {
    for (word, mask) in bits.iter_mut().zip(mask) {
        *word = if permits { *word | mask } else { *word & !mask };
    }
}

/// The places of a command and its subcommands, as bits.
fn family_bits(place: usize) -> Bits {
    let mut bits = [0; WORDS];
    catalog::family(place).for_each(|place| catalog::set(&mut bits, place));
    bits
}

fn find(name: &[u8]) -> Result<usize, RuleError> {
    let name = std::str::from_utf8(name).map_err(|_| RuleError::Unknown)?;
    catalog::find(&name.to_ascii_lowercase()).ok_or(RuleError::Unknown)
}

impl Commands {
    /// Permits all commands, or none.
    pub(super) fn set_all(&mut self, permits: bool) {
        *self = Self {
            permitted: [if permits { u64::MAX } else { 0 }; WORDS],
            is_open: permits,
            first_args: BTreeMap::new(),
        };
    }

    /// Permits or refuses what `rule` names, which is what follows its verb.
    pub(super) fn apply(&mut self, permits: bool, rule: &[u8]) -> Result<(), RuleError> {
        if let Some(category) = rule.strip_prefix(b"@") {
            let number = catalog::category_number(category).ok_or(RuleError::Unknown)?;
            apply_mask(&mut self.permitted, &catalog::category(number).reach, permits);
            self.first_args.retain(|place, _| !catalog::entries()[*place].is_in(number));
            return Ok(());
        }
        let place = match find(rule) {
            Ok(place) => place,
            Err(unknown) => match rule.iter().rposition(|byte| *byte == b'|') {
                Some(at) if permits => return self.permit_first_arg(&rule[..at], &rule[at + 1..]),
                _ => return Err(unknown),
            },
        };
        apply_mask(&mut self.permitted, &family_bits(place), permits);
        self.first_args.remove(&place);
        Ok(())
    }

    fn permit_first_arg(&mut self, command: &[u8], first_arg: &[u8]) -> Result<(), RuleError> {
        let place = find(command)?;
        if catalog::entries()[place].container().is_some() {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if first_arg.is_empty() || has_blanks(first_arg) {
            return Err(RuleError::Syntax);
        }
        if catalog::family(place).len() > 1 {
            return Err(RuleError::Unknown);
        }
        if catalog::has(&self.permitted, place) {
            return Ok(());
        }
        let all = self.first_args.entry(place).or_default();
        if !all.iter().any(|other| other.eq_ignore_ascii_case(first_arg)) {
            all.push(first_arg.into());
        }
        Ok(())
    }

    /// Whether every command is permitted, whatever its arguments.
    pub(super) fn are_all(&self) -> bool {
        (0..catalog::entries().len()).all(|place| catalog::has(&self.permitted, place))
    }

    /// Whether the command of that place is permitted, with this argument behind its name.
    pub(super) fn permit(&self, place: usize, first_arg: Option<&[u8]>) -> bool {
        let has_first = |arg: &[u8]| {
            self.first_args.get(&place).is_some_and(|all| all.iter().any(|one| one.eq_ignore_ascii_case(arg)))
        };
        catalog::has(&self.permitted, place) || first_arg.is_some_and(has_first)
    }

    /// What its first arguments take, about.
    pub(super) fn bytes(&self) -> usize {
        self.first_args.values().flatten().map(|arg| arg.len() + 32).sum()
    }

    /// Appends rules that make the same of nothing.
    pub(super) fn describe(&self, text: &mut Vec<u8>) {
        let (adds, verb) = (!self.is_open, if self.is_open { b'-' } else { b'+' });
        text.extend_from_slice(if adds { b"-@all" } else { b"+@all" });
        let mut reached = Self::default();
        reached.set_all(self.is_open);
        let mut left = self.permitted;
        let mut applied = [false; CATEGORIES.len()];
        // As in Redis: of the categories that fit more than they do not, that with the fewest
        // differences; of several, that which fits most, and then the first.
        loop {
            let mut best: Option<(usize, u32, u32)> = None;
            for number in (0..CATEGORIES.len()).filter(|number| !applied[*number]) {
                let members = &catalog::category(number).members;
                let (on, all) = (count(&left, members), count(members, members));
                let (same, differing) = if adds { (on, all - on) } else { (all - on, on) };
                let is_better = best.is_none_or(|(_, least, most)| (differing, most) < (least, same));
                if same > differing && is_better {
                    best = Some((number, differing, same));
                }
            }
            let Some((number, ..)) = best else { break };
            applied[number] = true;
            let reach = &catalog::category(number).reach;
            apply_mask(&mut reached.permitted, reach, adds);
            apply_mask(&mut left, reach, !adds);
            text.extend_from_slice(&[b' ', verb, b'@']);
            text.extend_from_slice(CATEGORIES[number].as_bytes());
        }
        for (place, entry) in catalog::entries().iter().enumerate() {
            let permits = catalog::has(&self.permitted, place);
            if permits != catalog::has(&reached.permitted, place) {
                text.extend_from_slice(&[b' ', if permits { b'+' } else { b'-' }]);
                text.extend_from_slice(entry.name.as_bytes());
                apply_mask(&mut reached.permitted, &family_bits(place), permits);
            }
            let first_args = self.first_args.get(&place).filter(|_| !permits);
            for first_arg in first_args.into_iter().flatten() {
                text.extend_from_slice(b" +");
                text.extend_from_slice(entry.name.as_bytes());
                text.push(b'|');
                text.extend_from_slice(first_arg);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_by(rules: &[&str]) -> Commands {
        let mut commands = Commands::default();
        for rule in rules {
            match *rule {
                "+@all" => commands.set_all(true),
                "-@all" => commands.set_all(false),
                rule => commands.apply(rule.starts_with('+'), &rule.as_bytes()[1..]).unwrap(),
            }
        }
        commands
    }

    fn described(commands: &Commands) -> String {
        let mut text = Vec::new();
        commands.describe(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_description_makes_the_same_commands() {
        let cases: [(&[&str], &str); 10] = [
            (&["+@all", "+select|0"], "+@all"),
            (&[], "-@all"),
            (&["+@all"], "+@all"),
            (&["+@all", "-get", "-CONFIG|Set"], "+@all -config|set -get"),
            (&["+@read", "+@write", "-@dangerous"], ""),
            (&["+get", "+client", "-client|list"], "-@all +client -client|list +get"),
            (&["+@list"], "-@all +@list"),
            (&["+select|0", "+select|1", "+SELECT|1"], "-@all +select|0 +select|1"),
            (&["+@all", "-@connection", "+client|setinfo"], ""),
            (&["+@all", "-@all", "+@all", "-select", "+select|0"], "+@all -select +select|0"),
        ];
        for (rules, expected) in cases {
            let commands = made_by(rules);
            let text = described(&commands);
            assert!(expected.is_empty() || text == expected, "{rules:?}: {text}");
            assert_eq!(made_by(&text.split(' ').collect::<Vec<_>>()), commands, "{text}");
        }
    }

    #[test]
    fn rules_on_a_container_are_for_its_subcommands() {
        let commands = made_by(&["+config", "-config|set", "+memory|usage"]);
        let permits = |name: &str| commands.permit(catalog::find(name).unwrap(), None);
        assert!(permits("config|get") && !permits("config|set") && permits("memory|usage") && !permits("memory"));
        assert!(!commands.are_all() && made_by(&["+@all"]).are_all());
        assert!(made_by(&["+@fast", "+@slow"]).are_all());
    }

    #[test]
    fn a_rule_on_what_is_not_there_is_refused() {
        let refused = |permits, rule: &str| Commands::default().apply(permits, rule.as_bytes()).unwrap_err();
        for rule in ["", "|", "nosuch", "@", "@nosuch", "nosuch|x", "client|nosuch", "get|x|y", "client|nosuch|x", "\0"]
        {
            assert_eq!(refused(true, rule), RuleError::Unknown, "{rule}");
        }
        assert_eq!(refused(false, "select|0"), RuleError::Unknown);
        assert_eq!(refused(true, "get|"), RuleError::Syntax);
        assert_eq!(refused(true, "client|"), RuleError::Syntax);
        assert_eq!(refused(true, "select|0 1"), RuleError::Syntax);
        assert_eq!(refused(true, "client|list|x"), RuleError::FirstArgOfSubcommand);
    }
}
