//! Fields of a form: what was written into them stays, with what is wrong next to it.

use super::list::capital;
use crate::problem::Problem;

/// One field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    /// What goes in, in a few words.
    pub(super) hint: &'static str,
    pub(super) example: &'static str,
    pub(super) value: String,
    /// More than one line when there are rows.
    pub(super) rows: u32,
    pub(super) is_needed: bool,
    pub(super) error: Option<String>,
}

impl Field {
    pub(super) fn line(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        let (value, error) = (String::new(), None);
        Self { name, label, hint, example: "", value, rows: 0, is_needed: false, error }
    }

    pub(super) fn lines(self, rows: u32) -> Self {
        Self { rows, ..self }
    }

    pub(super) fn needed(self) -> Self {
        Self { is_needed: true, ..self }
    }

    pub(super) fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }
}

/// The fields of a form, and what is wrong with it as a whole.
#[derive(Default)]
pub(super) struct Sheet {
    pub(super) all: Vec<Field>,
    pub(super) problem: Option<String>,
}

impl Sheet {
    pub(super) fn new(all: Vec<Field>) -> Self {
        Self { all, problem: None }
    }

    /// Fills in what was written.
    pub(super) fn fill<'a>(&mut self, written: impl Fn(&str) -> Option<&'a str>) {
        for field in &mut self.all {
            if let Some(value) = written(field.name) {
                value.clone_into(&mut field.value);
            }
        }
    }

    /// What was written into a field; nothing when it is empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let field = self.all.iter().find(|field| field.name == name)?;
        let value = if field.rows > 0 { &*field.value } else { field.value.trim() };
        Some(value.to_owned()).filter(|value| !value.is_empty())
    }

    /// Puts a problem next to the field that it is about. Problems begin with its name.
    pub(super) fn refuse(&mut self, problem: &Problem) {
        let message = &problem.message;
        let told = |rest: &str| format!("{}.", capital(rest.trim().trim_end_matches('.')));
        for field in &mut self.all {
            if let Some(rest) = message.strip_prefix(field.name).filter(|r| r.starts_with(' ')) {
                field.error = Some(told(rest));
                return;
            }
        }
        // Limits of headers name the one that breaks them.
        let headers = ["a header", "header name", "value of header"];
        let is_header = headers.iter().any(|start| message.starts_with(start));
        match self.all.iter_mut().find(|field| is_header && field.name == "headers") {
            Some(field) => field.error = Some(told(message)),
            None => self.problem = Some(told(message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let names = ["topic", "headers", "due_at"];
        Sheet::new(names.into_iter().map(|name| Field::line(name, name, "")).collect())
    }

    #[test]
    fn a_problem_stands_next_to_its_field() {
        for (message, at, told) in [
            ("topic must be 1 to 255 characters, got 0", 0, "Must be 1 to 255 characters, got 0."),
            ("header name must be visible ASCII", 1, "Header name must be visible ASCII."),
            ("headers must be at most 9 bytes", 1, "Must be at most 9 bytes."),
            ("due_at must be later", 2, "Must be later."),
        ] {
            let mut sheet = sheet();
            sheet.refuse(&Problem::invalid(message));
            assert_eq!(sheet.all[at].error.as_deref(), Some(told));
            assert_eq!(sheet.problem, None);
        }
        let mut sheet = sheet();
        sheet.refuse(&Problem::invalid("topics are closed"));
        assert_eq!(sheet.problem.as_deref(), Some("Topics are closed."));
    }
}
