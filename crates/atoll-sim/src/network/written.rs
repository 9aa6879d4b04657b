//! Profiles that users write: a TOML file says what differs from a profile that is known by name.
//!
//! ```toml
//! name = "our-nic"
//! base = "cx6-100g"           # what the file does not say is as there
//! link_bits_per_s = 200000000000
//! [serve]                     # picoseconds that a verb holds the NIC's engine
//! read_ps = 5000
//! ```
//!
//! The keys are the fields of [`Profile`].

use super::profile::Profile;
use super::profiles::ALL;
use toml::{Table, Value};

/// No time is so long: a second, in picoseconds. Sums of times have room above it.
const MOST: i64 = 1_000_000_000_000;

impl Profile {
    /// The profile that a TOML file describes. Its name is kept for as long as the process runs.
    ///
    /// # Errors
    /// What is wrong with the text, in words: no TOML, an unknown key or base, a value out of
    /// range.
    pub fn of_toml(text: &str) -> Result<Self, String> {
        let mut written: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut word = |key: &str| match written.remove(key) {
            Some(Value::String(word)) => Ok(word),
            _ => Err(format!("it needs a line `{key} = \"...\"`")),
        };
        let (name, base) = (word("name")?, word("base")?);
        let known = || ALL.map(|profile| profile.name).join(", ");
        let base = Self::named(&base).ok_or_else(|| format!("there is no profile {base}: there are {}", known()))?;
        let mut table = Table::try_from(base).map_err(|error| error.to_string())?;
        change(&mut table, written, "")?;
        let profile: Self = table.try_into().map_err(|error: toml::de::Error| error.to_string())?;
        if profile.link_bits_per_s == 0 || profile.mtu_bytes == 0 {
            return Err("link_bits_per_s and mtu_bytes are at least 1".to_owned());
        }
        for times in [profile.atomics_host, profile.atomics_device] {
            if times.turn_ps < times.gap_ps {
                return Err("turn_ps is at least gap_ps".to_owned());
            }
        }
        Ok(Self { name: name.leak(), ..profile })
    }
}

/// Puts the values of `written` in the place of those in `table`, which has a value for each key
/// that there is. `within` is the name of the table, with a dot behind it.
fn change(table: &mut Table, written: Table, within: &str) -> Result<(), String> {
    let keys = table.keys().cloned().collect::<Vec<_>>().join(", ");
    for (key, value) in written {
        let named = format!("{within}{key}");
        match (table.get_mut(&key), value) {
            (None, _) => return Err(format!("there is no {named}: there are {keys}")),
            (Some(Value::Table(inner)), Value::Table(value)) => change(inner, value, &format!("{named}."))?,
            (Some(Value::Integer(number)), Value::Integer(value)) if (0..=MOST).contains(&value) => *number = value,
            (Some(Value::Table(_)), _) => return Err(format!("{named} is a table: write [{named}]")),
            (Some(_), _) => return Err(format!("{named} takes a whole number from 0 to {MOST}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_does_not_say_is_as_in_its_base() {
        let text = "name = \"ours\"\nbase = \"cx6-100g\"\nwire_ps = 7\n[serve]\nread_ps = 5\n";
        let profile = Profile::of_toml(text).unwrap();
        let base = Profile::named("cx6-100g").unwrap();
        assert_eq!((profile.name, profile.wire_ps, profile.serve.read_ps), ("ours", 7, 5));
        let serve = super::super::profile::EngineTimes { read_ps: 5, ..base.serve };
        assert_eq!(profile, Profile { name: "ours", wire_ps: 7, serve, ..base });
    }

    #[test]
    fn every_known_profile_survives_as_a_base() {
        for base in ALL {
            let text = format!("name = \"{0}\"\nbase = \"{0}\"", base.name);
            assert_eq!(Profile::of_toml(&text), Ok(base));
        }
    }

    #[test]
    fn a_wrong_file_is_an_error_that_says_what_is_wrong() {
        let head = "name = \"x\"\nbase = \"cxl\"\n";
        for (text, told) in [
            ("name = \"x\"".to_owned(), "base = "),
            ("base = \"cxl\"".to_owned(), "name = "),
            ("name = \"x\"\nbase = \"cx9\"".to_owned(), "cx5-100g"),
            (format!("{head}speed = 1"), "there is no speed"),
            (format!("{head}[serve]\nreads = 1"), "there is no serve.reads: there are"),
            (format!("{head}serve = 1"), "write [serve]"),
            (format!("{head}wire_ps = -1"), "wire_ps takes a whole number"),
            (format!("{head}wire_ps = 1.5"), "wire_ps takes a whole number"),
            (format!("{head}mtu_bytes = 0"), "at least 1"),
            (format!("{head}[atomics_host]\ngap_ps = 9\nturn_ps = 8"), "at least gap_ps"),
            ("name".to_owned(), "expected"),
        ] {
            let error = Profile::of_toml(&text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
