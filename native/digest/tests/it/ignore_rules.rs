//! Properties of the pattern language.

use std::path::Path;

use platoon_digest::IgnoreRules;
use proptest::prelude::*;

proptest! {
    #[test]
    fn no_text_panics(text in "[\\PC\n\r]{0,60}", path in "[a-c/!\\[\\]]{1,20}") {
        if let Ok(rules) = IgnoreRules::parse(&text, Path::new(".gitignore")) {
            rules.is_ignored(&path);
        }
    }

    #[test]
    fn an_escaped_name_matches_itself_alone(name in "[a-z*?!#\\[\\]]{1,12}", other in "[a-z]{1,12}") {
        let escaped: String = name.chars().flat_map(|character| ['\\', character]).collect();
        let rules = IgnoreRules::parse(&escaped, Path::new(".gitignore")).unwrap();
        prop_assert!(rules.is_ignored(&name));
        let below = format!("x/{name}/y");
        prop_assert!(rules.is_ignored(&below));
        prop_assert_eq!(rules.is_ignored(&other), other == name);
    }
}
