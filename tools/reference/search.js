/* The search field and the menu of narrow windows. Without scripts the pages, their links and names.html still work. */
(function () {
    "use strict";
    var box = document.getElementById("search");
    var field = document.getElementById("query");
    var list = document.getElementById("results");
    var menu = document.getElementById("menu");
    var found = [], here = 0;

    function widen() {
        menu.open = window.innerWidth > 1000;
    }

    /* Smaller is better; -1 is no match. */
    function rank(row, words, whole) {
        var name = row[0].toLowerCase(), rest = (row[2] + " " + row[3] + " " + row[4] + " " + row[5]).toLowerCase();
        var short = name.replace(/^haul_/, ""), form = /_(with|into|into_with|scalar_into|options)$/.test(name);
        var other = row[5].toLowerCase(), spoken = whole.replace(/_/g, " ");
        if (name === whole || short === whole)
            return 0;
        /* What PyTorch calls it. Constants and internal gradients come after functions. */
        if (other && (" " + other.replace(/[_.()]/g, " ") + " ").indexOf(" " + spoken.replace(/[.()]/g, " ").trim() + " ") >= 0)
            return 1 + name.length / 100;
        var last = /^HAUL_/.test(row[0]) ? 40 : /_backward$/.test(name) ? 15 : 0;
        var every = words.every(function (w) { return name.indexOf(w) >= 0; });
        if (every)
            return (short.indexOf(words[0]) === 0 ? 10 : short.indexOf("_" + words[0]) >= 0 ? 20 : 30)
                + name.length / 100 + (form ? 5 : 0) + (/^haul_/.test(name) ? 0 : 3) + last;
        every = words.every(function (w) { return name.indexOf(w) >= 0 || rest.indexOf(w) >= 0; });
        return every ? 60 + name.length / 100 + last : -1;
    }

    function search() {
        var whole = field.value.trim().toLowerCase().replace(/\s+/g, " ");
        var words = whole.split(" ").filter(Boolean);
        found = [];
        if (words.length) {
            HAUL_NAMES.forEach(function (row) {
                var r = rank(row, words, whole.replace(/ /g, "_"));
                if (r >= 0)
                    found.push([r, row]);
            });
            found.sort(function (a, b) { return a[0] - b[0] || (a[1][0] < b[1][0] ? -1 : 1); });
            found = found.slice(0, 30).map(function (f) { return f[1]; });
        }
        here = 0;
        show(words.length > 0);
    }

    function show(visible) {
        list.textContent = "";
        list.hidden = !visible;
        found.forEach(function (row, i) {
            var item = document.createElement("li"), link = document.createElement("a");
            var name = document.createElement("code"), page = document.createElement("span");
            var text = document.createElement("p");
            link.href = row[1];
            name.textContent = row[0];
            page.textContent = row[2];
            text.textContent = row[3];
            link.append(name, page, text);
            item.append(link);
            item.className = i === here ? "here" : "";
            list.append(item);
        });
        if (visible && !found.length) {
            var none = document.createElement("li");
            none.className = "none";
            none.textContent = "Nothing found.";
            list.append(none);
        }
    }

    function move(step) {
        if (!found.length)
            return;
        here = (here + step + found.length) % found.length;
        Array.prototype.forEach.call(list.children, function (item, i) { item.className = i === here ? "here" : ""; });
        list.children[here].scrollIntoView({block: "nearest"});
    }

    field.addEventListener("input", search);
    field.addEventListener("focus", search);
    field.addEventListener("keydown", function (event) {
        if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            move(event.key === "ArrowDown" ? 1 : -1);
        } else if (event.key === "Enter" && found[here]) {
            location.href = found[here][1];
            list.hidden = true;
            field.blur();
        } else if (event.key === "Escape") {
            list.hidden = true;
            field.blur();
        }
    });
    document.addEventListener("keydown", function (event) {
        if (event.key === "/" && document.activeElement !== field) {
            event.preventDefault();
            field.focus();
        }
    });
    document.addEventListener("click", function (event) {
        if (!box.contains(event.target) || event.target.closest("a"))
            list.hidden = true;
    });
    window.addEventListener("resize", widen);
    box.hidden = false;
    widen();
    var asked = new URLSearchParams(location.search).get("q");
    if (asked) {
        field.value = asked;
        search();
    }
})();
