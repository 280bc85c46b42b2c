# Joins the parts of the report page into one file: cmake -DOUT=FILE -P join.cmake. The order of the
# scripts is that in which they need each other.
set(styles base parts charts print)
set(scripts dom format series model state tooltip table chart timeline layers summary layout graph memory
  accuracy bench board details facts keys main)

function(read_parts names suffix ret)
  set(all "")
  foreach(name ${names})
    file(READ ${CMAKE_CURRENT_LIST_DIR}/${name}.${suffix} text)
    string(APPEND all "${text}")
  endforeach()
  set(${ret} "${all}" PARENT_SCOPE)
endfunction()

read_parts("${styles}" css style)
read_parts("${scripts}" js script)
file(READ ${CMAKE_CURRENT_LIST_DIR}/page.html page)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUT} "${page}")
