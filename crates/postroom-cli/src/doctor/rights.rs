//! Which rights a service that delivers needs: read from the script that gives them.

/// A right on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// `select`, `insert`, `update`, `delete`, `usage` or `execute`.
    pub(crate) verb: String,
    /// `table`, `sequence`, `function` or `procedure`.
    pub(crate) kind: &'static str,
    /// As SQL, without arguments.
    pub(crate) object: String,
}

/// What a script of roles gives to a role. Rights on single columns and on schemas are left out.
pub(crate) fn given_to(script: &str, role: &str) -> Vec<Right> {
    script.split(';').filter_map(|statement| grant(statement, role)).flatten().collect()
}

fn grant(statement: &str, role: &str) -> Option<Vec<Right>> {
    let lines = statement.lines().map(str::trim).filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let rest = text.trim().strip_prefix("grant ")?;
    let (verbs, rest) = rest.split_once(" on ")?;
    let (objects, roles) = rest.rsplit_once(" to ")?;
    let quotes = ['"', '`'];
    let is_meant = roles.split(',').any(|name| name.trim().trim_matches(quotes) == role);
    if !is_meant || verbs.contains('(') || objects.starts_with("schema ") {
        return None;
    }
    let (kind, objects) = ["sequence", "function", "procedure"]
        .into_iter()
        .find_map(|kind| Some((kind, objects.strip_prefix(kind)?)))
        .unwrap_or(("table", objects));
    let objects = without_arguments(objects);
    let mut rights = Vec::new();
    for verb in verbs.split(',') {
        for object in objects.split(',') {
            let (verb, object) = (verb.trim().to_owned(), object.trim().to_owned());
            rights.push(Right { verb, kind, object });
        }
    }
    Some(rights)
}

fn without_arguments(objects: &str) -> String {
    let mut depth = 0_u32;
    let outside = objects.chars().filter(|c| {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                return false;
            }
            _ => {}
        }
        depth == 0
    });
    outside.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sch_6_the_rights_of_a_role_are_read_from_the_script() {
        let script = "
            -- Looks.
            grant select, delete on \"p\".a, \"p\".b to \"x\", \"w\";
            grant usage on schema \"p\" to \"w\";
            grant update (c) on \"p\".a to \"w\";
            grant execute on function \"p\".f(text, int), \"p\".g to \"w\";
            grant insert on \"p\".a to \"x\";";
        let rights = given_to(script, "w");
        let texts: Vec<_> = rights
            .iter()
            .map(|right| format!("{} {} {}", right.verb, right.kind, right.object))
            .collect();
        let expected = [
            "select table \"p\".a",
            "select table \"p\".b",
            "delete table \"p\".a",
            "delete table \"p\".b",
            "execute function \"p\".f",
            "execute function \"p\".g",
        ];
        assert_eq!(texts, expected);
    }
}
